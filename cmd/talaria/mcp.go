package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"talaria/api"
	"talaria/store"
)

// ownServerTime bounds how long a server that this command starts may take to be ready.
const ownServerTime = time.Minute

// ownOrphanTTL is how long kernels outlive a server that this command started: long enough for a desktop client to restart,
// and for another one that used the same server to start the next.
const ownOrphanTTL = time.Minute

func mcpCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "mcp",
		Short: "Serve the Model Context Protocol on standard input and output",
		Long: `Serve the Model Context Protocol on standard input and output, for desktop clients.

It uses the server of the state directory, or the one given with --server. If none is running, it starts its own server,
which exits with it; kernels keep running for a minute, so that a client that restarts with the same --session finds its
variables. Logs go to standard error.`,
		Example: `  talaria mcp
  talaria mcp --session work
  talaria mcp --server https://talaria.example.org --token "$TOKEN"`,
		Args: arguments(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			id := flagOf(cmd, "session")
			if id != "" && !api.ValidID(id) {
				return usagef("--session must be a session's id, not %q", id)
			}
			return serveStdio(cmd, id)
		},
	}
	addConnection(cmd)
	cmd.Flags().StringP("session", "s", "", "session for calls that do not name one (default: a new one)")
	return cmd
}

// serveStdio passes messages on until standard input ends.
func serveStdio(cmd *cobra.Command, id string) error {
	ctx, stop := context.WithCancel(cmd.Context())
	defer stop()
	finder := &serverFinder{cmd: cmd}
	c, err := finder.find(ctx)
	if err == nil && id != "" {
		_, _, err = c.EnsureSession(ctx, id, api.SessionRequest{}, api.IfExistsKeep)
		err = reached(c.url, err)
	}
	if err == nil {
		err = newBridge(c, finder.find, id, cmd.OutOrStdout()).run(ctx, cmd.InOrStdin())
	}
	return errors.Join(err, finder.own.stop())
}

// serverFinder finds the server to use, and starts one where there is none. It is not safe for concurrent use.
type serverFinder struct {
	cmd *cobra.Command
	own *ownServer // the one that was started last
}

// find returns a connection to the server that is there, or else to one that it starts.
func (f *serverFinder) find(ctx context.Context) (*connection, error) {
	c, err := connect(f.cmd)
	if err == nil {
		err = c.Ready(ctx)
		if isAnswer(err) {
			return c, nil
		}
		err = reached(c.url, err)
	}
	if named(f.cmd) {
		return nil, err
	}
	if err := f.own.stop(); err != nil {
		return nil, err
	}
	if f.own, err = startOwn(ctx, f.cmd); err != nil {
		return nil, err
	}
	return connect(f.cmd)
}

// named reports whether the user said which server to use.
func named(cmd *cobra.Command) bool {
	address, err := given(flagOf(cmd, "server"), "TALARIA_URL", "")
	return err == nil && address != ""
}

// isAnswer reports whether a server answered, be it with an error. What other programs and proxies answer has no code.
func isAnswer(err error) bool {
	var refused *api.Error
	return err == nil || errors.As(err, &refused) && refused.Code != ""
}

// ownServer is a server in this process. A nil one is the server of another process.
type ownServer struct {
	end  context.CancelFunc
	done chan struct{} // closed once it has ended
	err  error         // why; valid once done is closed
}

// startOwn starts a server on the state directory and waits until it is ready. If another process takes the directory at the
// same moment, that one's server is waited for, and the result is nil.
func startOwn(parent context.Context, cmd *cobra.Command) (*ownServer, error) {
	c, err := ownConfig(cmd)
	if err != nil {
		return nil, err
	}
	ctx, end := context.WithCancel(context.WithoutCancel(parent))
	own := &ownServer{end: end, done: make(chan struct{})}
	go func() {
		defer close(own.done)
		own.err = serve(ctx, c, configFile(cmd), cmd.ErrOrStderr(), cmd.ErrOrStderr())
	}()
	late := time.After(ownServerTime)
	check := time.NewTicker(50 * time.Millisecond)
	defer check.Stop()
	ended := own.done
	for {
		if conn, err := connect(cmd); err == nil && isAnswer(conn.Ready(parent)) {
			if own.exited() {
				own = nil
			}
			return own, nil
		}
		select {
		case <-ended:
			if !errors.Is(own.err, store.ErrLocked) {
				return nil, fmt.Errorf("start a server: %w", own.err)
			}
			ended = nil // the other one is about to be ready
		case <-parent.Done():
			return nil, errors.Join(context.Cause(parent), own.stop())
		case <-late:
			return nil, errors.Join(fmt.Errorf("no server was ready on %s after %v; start one with %s serve and read what it prints",
				c.StateDir, ownServerTime, program), own.stop())
		case <-check.C:
		}
	}
}

// ownConfig is the configuration of a server that this command starts.
func ownConfig(cmd *cobra.Command) (config, error) {
	c, err := load(cmd)
	c.Addr = "127.0.0.1:0"
	c.OrphanTTL = min(c.OrphanTTL, ownOrphanTTL)
	if c.sources["token"] == "TALARIA_TOKEN" { // it says whom to act for, and is not to become the first owner's
		c.Token = ""
	}
	return c, err
}

func (o *ownServer) exited() bool {
	select {
	case <-o.done:
		return true
	default:
		return false
	}
}

// stop ends the server, and waits for it; its kernels go on for ownOrphanTTL.
func (o *ownServer) stop() error {
	if o == nil {
		return nil
	}
	o.end()
	<-o.done
	return o.err
}
