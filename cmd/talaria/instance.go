package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"sync"
	"syscall"

	"talaria/kernel"
	"talaria/kernel/disk"
	"talaria/kernel/landlock"
	"talaria/kernel/link"
	"talaria/kernel/record"
	"talaria/session"
	"talaria/store"
)

// instance is what a state directory has: its sessions, and the hosts of their kernels. It has no requests of its own, so that
// talaria host stop can have one, too.
type instance struct {
	hosts        *link.Client
	environments []kernel.Environment // the default one first
	tier         string
	sessions     *session.Manager
	closers      []func() error // of what the sessions need, the last one first
}

// openInstance takes up the sessions of a state directory, and starts a host unless one of this build runs. What takes longest runs
// side by side: finding the environments, starting the host, and trying how workspaces can be held to their limits.
func openInstance(ctx context.Context, c config, configFile string, db *store.Store, log *slog.Logger) (_ *instance, err error) {
	i := new(instance)
	defer func() {
		if err != nil {
			err = errors.Join(err, i.closeRest())
		}
	}()
	environments := sync.OnceValues(func() ([]kernel.Environment, error) {
		return discover(ctx, c, filepath.Join(c.StateDir, "pythons"), log)
	})
	workspaces := sync.OnceValues(func() (*disk.Store, error) { return openDisk(ctx, c, c.Tier != landlock.Tier, log) })
	go environments()
	go workspaces()
	i.closers = append(i.closers, func() error {
		opened, err := workspaces()
		if err != nil {
			return nil // openInstance has returned it
		}
		return opened.Close()
	})
	opened := make(chan struct{}) // closed when sessions is set
	i.hosts, err = link.Open(ctx, link.ClientConfig{
		Dir: hostsDir(c), Build: hostBuild(c), Version: fullVersion(), Log: log,
		Spawn: spawner(c, configFile, func() (kernel.Environment, error) {
			all, err := environments()
			if err != nil {
				return kernel.Environment{}, err
			}
			return all[0], nil
		}),
		Ending: func(ctx context.Context, keys []record.Key) {
			select {
			case <-opened:
				i.sessions.HostEnds(ctx, keys)
			case <-ctx.Done():
			}
		},
	})
	if err == nil {
		i.closers = append(i.closers, i.hosts.Close)
	}
	all, notFound := environments()
	if notFound != nil { // which no host can do without, so it is the cause of any other error
		return nil, notFound
	}
	if err != nil {
		return nil, err
	}
	i.environments = all
	i.hosts.Warm(i.environments)
	if i.tier, err = tierOf(ctx, i.hosts); err != nil {
		return nil, err
	}
	held, err := workspaces()
	if err == nil && i.tier == landlock.Tier && c.Tier != landlock.Tier { // it is no better one, and its sandboxes see no mounts
		if err = held.Close(); err == nil {
			held, err = openDisk(ctx, c, false, log)
		}
	}
	if err != nil {
		return nil, err
	}
	i.closers = append(i.closers, held.Close)
	packages := &packageIndex{c: c, env: i.environments[0], log: log}
	i.closers = append(i.closers, packages.close)
	remote, err := c.remoteTools(log)
	if err != nil {
		return nil, err
	}
	i.closers = append(i.closers, func() error { return closeRemote(remote) })
	i.sessions, err = openSessions(ctx, c, db, i.hosts, held, i.tier, i.environments, packages.session(i.tier), remote, log)
	if err != nil {
		return nil, err
	}
	close(opened)
	return i, nil
}

// close ends this process's part in the sessions. If ctx was ended by an interrupt at the keyboard, that is all of it, kernels and
// hosts too; otherwise these go on for the next server.
func (i *instance) close(ctx context.Context) error {
	var cause signalled
	if errors.As(context.Cause(ctx), &cause) && cause.Signal == syscall.SIGINT {
		return errors.Join(i.end(context.WithoutCancel(ctx)), i.closeRest())
	}
	return errors.Join(i.sessions.Close(context.Background()), i.closeRest())
}

// end ends all kernels and hosts. Kernels that run no cell hibernate first, where there is time.
func (i *instance) end(ctx context.Context) error {
	ending, cancel := context.WithTimeout(ctx, sessionsStop)
	defer cancel()
	err := i.sessions.Shutdown(ending)
	if err != nil {
		err = fmt.Errorf("end the kernels: %w", err)
	}
	stopping, cancel := context.WithTimeout(ctx, hostStop) // it kills what the sessions could not end
	defer cancel()
	return errors.Join(err, i.hosts.StopHosts(stopping))
}

func (i *instance) closeRest() (err error) {
	for _, c := range slices.Backward(i.closers) {
		err = errors.Join(err, c())
	}
	return err
}
