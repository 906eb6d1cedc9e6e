package session

import (
	"context"
	"sync"
	"sync/atomic"

	"talaria/api"
	"talaria/kernel/machine"
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

// usageQuestions is how many kernels are asked for their usage at once.
const usageQuestions = 16

// infos returns the sessions that have a kernel.
func (m *Manager) infos(ctx context.Context) []api.Session {
	all := m.withKernels()
	infos := make([]api.Session, len(all))
	var next atomic.Int64
	var wg sync.WaitGroup
	for range min(usageQuestions, len(all)) {
		wg.Go(func() {
			for i := next.Add(1) - 1; i < int64(len(all)); i = next.Add(1) - 1 {
				infos[i] = all[i].Info(ctx)
				all[i].Release()
			}
		})
	}
	wg.Wait()
	return infos
}

// Environments are the configured Pythons, the default first.
func (m *Manager) Environments() []api.EnvironmentInfo {
	list := []api.EnvironmentInfo{}
	for _, e := range m.cfg.Environments {
		list = append(list, api.EnvironmentInfo{Name: e.Name, Python: e.Version, Engine: e.Engine})
	}
	return list
}
