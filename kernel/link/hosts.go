package link

import (
	"context"
	"errors"
	"fmt"
	"os"

	"talaria/kernel/record"
	"talaria/kernel/spool"
)

// HostInfo describes a host by what is in its folder.
type HostInfo struct {
	Info    // zero except for the ID if the host is not, or never was, ready
	Path    string
	Alive   bool
	Kernels []record.Key // that it runs, or whose records nobody has acknowledged
}

// List lists the hosts whose folders are in dir, the newest first. It disturbs neither them nor their server.
func List(dir string) ([]HostInfo, error) {
	all, err := scan(dir)
	if err != nil {
		return nil, err
	}
	hosts := make([]HostInfo, len(all))
	for i, f := range all {
		hosts[i] = HostInfo{Info: f.info, Path: f.path, Alive: !f.dead}
		hosts[i].ID = f.id
		if hosts[i].Kernels, err = spool.Keys((&Folder{Path: f.path}).Spool()); err != nil {
			return nil, fmt.Errorf("host %s: %w", f.id, err)
		}
	}
	return hosts, nil
}

// StopHosts tells all living hosts whose folders are in dir to end, with their kernels, whatever protocol they speak,
// and returns when they have ended. It needs no server. ctx bounds the wait.
func StopHosts(ctx context.Context, dir string) error {
	all, err := scan(dir)
	if err != nil {
		return err
	}
	var errs []error
	for _, f := range all {
		if f.dead {
			continue
		}
		err := stopHost(ctx, f)
		if err == nil {
			continue
		}
		if dead, unknown := isDead(f.path); !dead || unknown != nil { // otherwise it has ended meanwhile, as it should
			errs = append(errs, fmt.Errorf("stop host %s (process %d): %w", f.id, f.info.PID, err))
		}
	}
	return errors.Join(errs...)
}

func stopHost(ctx context.Context, f found) error {
	u, pid, err := dial(ctx, f.path)
	if err != nil {
		return err
	}
	control := newCaller(newConn(u), nil)
	defer control.Close()
	watched := watch(pid)
	defer watched.stop()
	hello, cancel := context.WithTimeout(ctx, helloTime)
	defer cancel()
	var is helloReply
	err = control.open(hello, opHello, helloBody{Protocol: supported}, &is)
	if err != nil && !errors.Is(err, errProtocol) {
		return err
	}
	if is.ID != f.id {
		return fmt.Errorf("another process answers on its socket: it says that it is %q", is.ID)
	}
	if err := control.open(hello, opStop, nil, nil); err != nil && !errors.Is(err, errBroken) {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- control.run() }()
	select {
	case <-ended:
	case <-ctx.Done():
		_ = control.Close()
		<-ended
		return context.Cause(ctx)
	}
	if pid == os.Getpid() { // a host within this process: the end of its lock, which comes before that of its connections, is its end
		return nil
	}
	select {
	case <-watched.gone:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
