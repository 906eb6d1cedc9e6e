package packages

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/google/uuid"

	"talaria/api"
	"talaria/kernel"
	"talaria/kernel/command"
	"talaria/kernel/record"
	"talaria/kernel/workspace"
	"talaria/session/index"
)

const (
	// relayedBytes are shown of what one installer prints.
	relayedBytes = 256 << 10
	installerTmp = 512 << 20

	installerTalks = "\n[further output of the installer was left out]\n"
)

//go:embed installer.py
var installer string

// installerCode is the cell that an installer runs.
func installerCode(index string, c record.PackageChange) (string, error) {
	order, err := api.Marshal(map[string]any{
		"index": index, "remove": c.Remove, "requirements": append([]string{}, c.Requirements...), "upgrade": c.Upgrade,
		"reinstall": c.Reinstall, "no_deps": c.NoDeps, "pre": c.Pre, "quiet": c.Quiet,
	})
	if err != nil {
		return "", err
	}
	return "import json\nORDER = json.loads(" + strconv.QuoteToASCII(string(order)) + ")\n" + installer, nil
}

// runInstaller runs the code in a kernel of its own, which has nothing of the session but its packages and its limits,
// and can reach nothing but the index. It returns when no process of it is left.
func (p *Packages) runInstaller(ctx context.Context, i *installation, stage *workspace.Dir, code string) (err error) {
	if err := p.in.Startable(); err != nil {
		return err
	}
	limits := p.in.Limits()
	limits.DiskBytes = min(limits.DiskBytes, p.in.Config.MaxBytes)
	limits.TmpBytes = installerTmp
	host, key := p.in.Host, record.Key{Session: uuid.Must(uuid.NewV7()).String(), Generation: 1}
	_, err = host.Start(ctx, key, p.in.Environment, kernel.Spec{
		UID: p.in.UID, Workspace: stage.File(), Packages: p.in.Dir.File(), TZ: p.in.TZ, Limits: limits, Hostname: "talaria",
		Strict: true, NoInstalls: "this is an installer", NoTools: "an installer calls no tools", NoAfter: "an installer has no checkpoints", Network: kernel.Network{
			Mode: string(api.NetworkAllow), Hosts: map[string]string{index.Name: "unix:" + p.in.Config.Socket},
		},
	})
	if err != nil {
		return err
	}
	defer func() {
		err = errors.Join(err, p.in.Insist(context.Background(), func() error {
			return host.Stop(context.WithoutCancel(ctx), key, "installed")
		}))
		host.Ack(key, ^uint64(0))
	}()
	run := command.Execution{ID: uuid.Must(uuid.NewV7()).String(), Code: code, Silent: true, Timeout: p.in.Config.Timeout}
	if err := command.Tell(ctx, host, key, run); err != nil {
		return err
	}
	return p.followInstaller(ctx, i, key, limits)
}

// followInstaller relays what an installer prints until it has ended, and returns how.
func (p *Packages) followInstaller(ctx context.Context, i *installation, key record.Key, limits kernel.Limits) error {
	f := installerOutput{limits: limits, timeout: p.in.Config.Timeout}
	for last := uint64(0); ; {
		batch, err := p.in.Host.Next(ctx, key, last)
		if err != nil {
			return fmt.Errorf("follow the installer: %w", err)
		}
		for _, r := range batch {
			last = r.KSeq
			f.take(r.Body)
		}
		if err := p.relay(ctx, i, &f); err != nil {
			return err
		}
		if f.over {
			return f.failure
		}
		p.in.Host.Ack(key, last)
	}
}

// relay sends what the installer printed to the kernel that waits for the installation. Text that the kernel does not
// read now is sent again with the next text.
func (p *Packages) relay(ctx context.Context, i *installation, f *installerOutput) error {
	if f.unsent == "" {
		return nil
	}
	err := command.Tell(ctx, p.in.Host, i.key, command.InstallOutput{RequestID: i.ask, Text: f.unsent})
	switch {
	case err == nil:
		f.unsent = ""
	case ctx.Err() != nil, errors.Is(err, command.ErrNoInstallPending), errors.Is(err, command.ErrNoKernel):
		return ErrInterrupted
	default:
		p.in.Log.Debug("relay what an installer printed", "error", err)
	}
	return nil
}

// installerOutput is what the records of an installer have reported so far.
type installerOutput struct {
	limits  kernel.Limits
	timeout time.Duration

	printed int    // bytes
	unsent  string // that are to be relayed
	over    bool
	failure error
}

func (f *installerOutput) take(body record.Body) {
	switch b := body.(type) {
	case record.Stream:
		f.print(b.Text)
	case record.Raised:
		f.failure = failed("%s", b.Error.Evalue)
		if b.Error.Ename != "SystemExit" {
			f.failure = failed("the installer failed: %s: %s", b.Error.Ename, b.Error.Evalue)
		}
		if b.Limit != nil {
			f.failure = pastLimit(b.Limit, f.limits)
		}
	case record.Finished:
		f.over = true
		switch {
		case b.Status == record.TimedOut:
			f.failure = failed("the installation took longer than %v (packages.timeout_s in the server's configuration); nothing was changed", f.timeout)
		case b.Status != record.OK && f.failure == nil:
			f.failure = failed("the installer ended as %s; nothing was changed", b.Status)
		}
	case record.Died:
		f.over = true
		f.failure = failed("the installer died (%s); nothing was changed", b.Reason)
		if b.Limit != nil {
			f.failure = pastLimit(b.Limit, f.limits)
		}
	}
}

// print keeps text to be relayed, up to the bound on all of it.
func (f *installerOutput) print(text string) {
	before := f.printed
	f.printed += len(text)
	switch {
	case f.printed <= relayedBytes:
		f.unsent += text
	case before <= relayedBytes:
		f.unsent += installerTalks
	}
}

func failed(format string, args ...any) error {
	return api.Errorf(api.CodeInvalidRequest, format, args...)
}

func pastLimit(hit *record.LimitHit, limits kernel.Limits) error {
	if hit.Name == "disk_bytes" {
		return failed("the packages need more than %d MiB, the limit for a session's packages (packages.max_bytes in the "+
			"server's configuration, or the session's disk_bytes); nothing was changed", limits.DiskBytes>>20)
	}
	return failed("the installer reached a limit: %v; nothing was changed: raise the limit, or choose packages that need no build", hit)
}
