package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"talaria/kernel"
	"talaria/server/hermes"
	"talaria/session"
)

// hermesFront is the front of hermes-agent, which has a socket instead of an address.
type hermesFront struct {
	Socket string `config:"socket"` // "": not served
	Owner  string `config:"owner"`
	UIDs   []int  `config:"uids"`   // none: the server's
	Folder string `config:"folder"` // that all of its sessions see at the same path; "": none
}

// hermesFolders are the folders in which a path can be the same on the machine and in a session.
var hermesFolders = []string{"/mnt", "/data"}

func (c config) checkHermes() error {
	f := c.Fronts.Hermes
	if f.Socket == "" {
		return nil
	}
	if err := hermes.Check(f.Socket, f.Owner, f.UIDs); err != nil {
		return fmt.Errorf("fronts.hermes: %w", err)
	}
	within := func(top string) bool { return f.Folder == top || strings.HasPrefix(f.Folder, top+"/") }
	switch {
	case f.Folder == "":
	case filepath.Clean(f.Folder) != f.Folder || !slices.ContainsFunc(hermesFolders, within):
		return c.wrong("fronts.hermes.folder", "must be %s, or a path below one of them, not %q", strings.Join(hermesFolders, " or "), f.Folder)
	case !slices.ContainsFunc(c.MountRoots, within):
		return c.wrong("fronts.hermes.folder", "%q must be in one of the mount_roots", f.Folder)
	}
	return nil
}

// listenHermes opens the socket of hermes-agent; without one it returns nil.
func (c config) listenHermes(log *slog.Logger) (*hermes.Broker, error) {
	f := c.Fronts.Hermes
	if f.Socket == "" {
		return nil, nil
	}
	b, err := hermes.Listen(hermes.Config{Socket: f.Socket, Owner: f.Owner, UIDs: f.UIDs, Folder: f.Folder, Log: log})
	if err != nil {
		return nil, fmt.Errorf("fronts.hermes.socket: %w", err)
	}
	return b, nil
}

// serveHermes serves hermes-agent until ctx ends or stop is called, which waits until its programs have ended.
func serveHermes(ctx context.Context, b *hermes.Broker, sessions *session.Manager, log *slog.Logger) (stop func()) {
	if b == nil {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		log.Info("serving", "front", "hermes", "socket", b.Socket)
		if err := b.Serve(ctx, sessions); err != nil {
			log.Error("hermes-agent is no longer served", "error", err)
		}
	}()
	return func() {
		cancel()
		<-ended
	}
}

// announceHermes prints the socket of hermes-agent.
func announceHermes(log *slog.Logger, stdout io.Writer, c config) {
	switch f := c.Fronts.Hermes; {
	case f.Socket == "":
	case c.LogFormat == logJSON:
		log.Info("ready", "front", "hermes", "socket", f.Socket)
	default:
		fmt.Fprintf(stdout, "front hermes: %s\n", f.Socket)
	}
}

// hermesFinding has the setting for hermes-agent.
func (c config) hermesFinding() kernel.Finding {
	finding := kernel.Finding{Name: "hermes-agent", OK: true}
	if f := c.Fronts.Hermes; f.Socket == "" {
		finding.Detail = "disabled; set fronts.hermes.socket to enable it"
	} else {
		finding.Detail = fmt.Sprintf("add this to its config.yaml, with the server's uid: terminal: {temp_dir: /tmp, local_exec_broker: {socket: %s, uid: %d}}",
			f.Socket, os.Geteuid())
	}
	return finding
}
