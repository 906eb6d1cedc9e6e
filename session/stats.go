package session

import (
	"context"
	"maps"
	"slices"

	"talaria/api"
	"talaria/kernel/machine"
	"talaria/kernel/record"
)

// Stats returns figures about the server.
func (m *Manager) Stats(ctx context.Context) api.Stats {
	st := api.Stats{
		Version: m.cfg.Version, StartedAt: m.startedAt, Isolation: api.Isolation{Tier: m.cfg.Tier, Layers: []string{}},
		Environments: m.Environments(),
	}
	st.Sessions = map[api.SessionState]int64{}
	if counts, err := m.cfg.Store.SessionStates(ctx); err == nil {
		st.Sessions = counts
		st.Kernels = counts[api.StateIdle] + counts[api.StateBusy]
	}
	st.EventsWritten = m.events.Load()
	for _, state := range api.SessionStates {
		st.Sessions[state] += 0
	}
	if m.cfg.Pool != nil {
		st.Pool = m.cfg.Pool(ctx)
	}
	figures, err := machine.Read(ctx, m.cfg.SessionsDir)
	if err != nil {
		m.cfg.Log.Debug("stats", "error", err)
	}
	st.Machine = api.Machine{
		CPUs: figures.CPUs, Load1: figures.Load1,
		MemoryBytes: figures.MemoryBytes, MemoryAvailableBytes: figures.MemoryAvailable,
		DiskBytes: figures.DiskBytes, DiskAvailableBytes: figures.DiskAvailable,
	}
	st.Executions, _ = m.cfg.Store.CountExecutions(ctx)
	for _, info := range m.infos(ctx) {
		if info.State == api.StateIdle || info.State == api.StateBusy {
			st.MemoryBytes += info.Usage.MemoryBytes
			st.CPUSeconds += info.Usage.CPUSeconds
			if info.Isolation.Tier == m.cfg.Tier {
				st.Isolation = info.Isolation
			}
		}
	}
	return st
}

// EndedExecutions counts the executions that have ended since the start, including those of deleted sessions.
func (m *Manager) EndedExecutions() int64 { return m.ended.Load() }

// infos returns the sessions that have a kernel.
func (m *Manager) infos(ctx context.Context) []api.Session {
	all := m.withKernels()
	infos := make([]api.Session, len(all))
	m.describe(ctx, all, infos)
	for _, s := range all {
		s.Release()
	}
	return infos
}

// describe sets an element of infos to what Info returns for the session in its place, unless that is nil. The hosts are
// asked once for the usage of all.
func (m *Manager) describe(ctx context.Context, sessions []*Session, infos []api.Session) {
	places := map[record.Key]int{}
	for i, s := range sessions {
		if s == nil {
			continue
		}
		infos[i] = s.summary()
		if key, measurable := s.measurable(); measurable {
			places[key] = i
		}
	}
	if len(places) == 0 {
		return
	}
	usages, err := m.cfg.Host.Usages(ctx, slices.Collect(maps.Keys(places)))
	if err != nil && ctx.Err() == nil {
		m.cfg.Log.Warn("read the usage of sessions", "error", err)
	}
	for _, u := range usages {
		if i, asked := places[u.Key]; asked {
			addUsage(&infos[i], u.Usage)
		}
	}
}

// Environments are the configured Pythons, the default first.
func (m *Manager) Environments() []api.EnvironmentInfo {
	list := []api.EnvironmentInfo{}
	for _, e := range m.cfg.Environments {
		list = append(list, api.EnvironmentInfo{Name: e.Name, Python: e.Version, Engine: e.Engine})
	}
	return list
}
