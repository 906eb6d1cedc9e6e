package hermes

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"talaria/api"
	"talaria/session"
	"talaria/session/processes"
)

// metaRole is the metadata that sessions of this package have.
const metaRole = "talaria.hermes"

// The roles of sessions.
const (
	roleKernel   = "kernel"   // of one runner, and deleted with it
	roleCommands = "commands" // of all commands of a user
)

// tag names our programs in the session of commands, where a client of another protocol may have some, too.
const tag = "hermes"

// insideTops are the folders whose paths mean the same on both sides, as far as they exist there. The path of the workspace is that of
// the namespace tier.
var insideTops = []string{workspace, "/tmp", "/mnt", "/data"}

const workspace = "/workspace"

// bootstrap is the program that becomes a runner.
//
//go:embed bootstrap.py
var bootstrap string

// start starts the program of a launch. Its holder releases it.
func (b *Broker) start(ctx context.Context, l *launch, uid int) (*program, error) {
	if l.runner != nil {
		return b.startKernel(ctx, l, uid)
	}
	return b.startCommand(ctx, l, uid)
}

// startKernel starts a runner in a session of its own.
func (b *Broker) startKernel(ctx context.Context, l *launch, uid int) (*program, error) {
	module, err := readTools(l.env, uid)
	if err != nil {
		return nil, err
	}
	agent, err := openAgent(l.env, uid)
	if err != nil {
		return nil, err
	}
	defer agent.close()
	s, err := b.sessions.Create(context.WithoutCancel(ctx), b.Owner, b.sessionFor(roleKernel, "hermes: Python"))
	if err != nil {
		return nil, err
	}
	p := b.program(s, true)
	p.input = slices.Concat(l.runner, module)
	if err = ctx.Err(); err == nil {
		p.tools, err = b.serveTools(ctx, s, agent)
	}
	if err == nil {
		env := inside(l.env)
		if at := p.tools.path(); at != "" {
			env[rpcVariable] = at
		}
		args := python("-c", bootstrap, strconv.Itoa(len(l.runner)), strconv.Itoa(len(module)))
		err = p.run(ctx, processes.Request{Args: args, Env: env, Dir: directory(l.cwd), Stdin: true, Tag: tag})
	}
	if err != nil {
		p.release()
		if err := b.remove(context.WithoutCancel(ctx), s); err != nil {
			b.Log.Error("delete the session of a runner of hermes that was not started", "session", s.ID(), "error", err)
		}
		return nil, err
	}
	return p, nil
}

// startCommand starts a command in the session that all commands of a user share: each builds on the files of those before.
func (b *Broker) startCommand(ctx context.Context, l *launch, uid int) (*program, error) {
	s, _, err := b.sessions.Ensure(context.WithoutCancel(ctx), b.Owner, "hermes-"+strconv.Itoa(uid), b.sessionFor(roleCommands, "hermes: commands"), api.IfExistsKeep)
	if err != nil {
		return nil, err
	}
	p := b.program(s, false)
	args, err := p.endBackground(ctx, l.argv)
	if err != nil {
		p.release()
		return nil, err
	}
	if l.stderr == nil && l.stdout != nil { // both go to one stream, in the order in which they are written
		args = append([]string{"/bin/sh", "-c", `exec "$@" 2>&1`, "sh"}, args...)
	}
	err = p.run(ctx, processes.Request{Args: args, Env: inside(l.env), Dir: directory(l.cwd), Stdin: l.stdin != nil, Tag: tag, Group: true})
	if err != nil {
		p.release()
		return nil, err
	}
	return p, nil
}

// program returns one that is not started yet, in a session that the caller has and that it takes over.
func (b *Broker) program(s *session.Session, scratch bool) *program {
	return &program{Session: s, b: b, scratch: scratch, detach: s.Attach(), unhold: s.Hold()}
}

// run starts the program, even if ctx ends: then it is known and can be ended.
func (p *program) run(ctx context.Context, r processes.Request) (err error) {
	ctx = context.WithoutCancel(ctx)
	p.id, err = p.Programs().Start(ctx, r)
	if known := new(api.Error); r.Dir != "" && errors.As(err, &known) && known.Code == api.CodeFileNotFound {
		r.Dir = "" // only the client's side has the folder
		p.id, err = p.Programs().Start(ctx, r)
	}
	if err != nil {
		return err
	}
	all, err := p.Programs().List(ctx)
	if err != nil {
		return errors.Join(err, p.Programs().Signal(ctx, p.id, sigkill))
	}
	if i := slices.IndexFunc(all, func(one processes.Program) bool { return one.ID == p.id }); i >= 0 {
		p.place = all[i].Place
	}
	return nil
}

// python is a command that runs the sandbox's interpreter.
func python(args ...string) []string {
	return append([]string{"/bin/sh", "-c", `exec "$TALARIA_PYTHON" "$@"`, "sh"}, args...)
}

// directory is where a program begins; "" is the workspace, which also stands for folders that only the client's side has.
func directory(cwd string) string {
	if cwd == workspace || !slices.ContainsFunc(insideTops, func(top string) bool { return cwd == top || strings.HasPrefix(cwd, top+"/") }) {
		return ""
	}
	return path.Clean(cwd)
}

// sessionFor is what a session for a role is made from.
func (b *Broker) sessionFor(role, name string) api.SessionRequest {
	metadata := map[string]string{metaRole: role}
	r := api.SessionRequest{Name: &name, Metadata: &metadata}
	if b.Folder != "" {
		r.Mounts = &[]api.Mount{{Source: b.Folder, Target: b.Folder, Mode: "rw"}}
	}
	return r
}

// remove deletes a session. One that somebody else has deleted is fine.
func (b *Broker) remove(ctx context.Context, s *session.Session) error {
	err := b.sessions.Delete(ctx, b.Owner, s.ID())
	if known := new(api.Error); errors.As(err, &known) && known.Code == api.CodeSessionNotFound {
		return nil
	}
	return err
}

// endCommand ends the process group of a command that has not ended: at its request, or after some time by force.
func endCommand(ctx context.Context, s *session.Session, id string) error {
	if err := s.Programs().Signal(ctx, id, sigterm); err != nil {
		return gone(err)
	}
	patient, cancel := context.WithTimeout(ctx, termTime)
	defer cancel()
	for o := (output{Session: s, id: id}); ; {
		piece, err := o.next(patient)
		switch {
		case err == nil && piece.Ended:
			return nil
		case err == nil: // what it still prints is for nobody
			o.stdout, o.stderr = piece.Stdout.Offset+int64(len(piece.Stdout.Data)), piece.Stderr.Offset+int64(len(piece.Stderr.Data))
		case patient.Err() != nil:
			return gone(s.Programs().Signal(ctx, id, sigkill))
		default:
			return gone(err)
		}
	}
}

// termTime is how long a command may take to end when it is asked to.
const termTime = 2 * time.Second

// gone is an error, unless it says that a program has ended.
func gone(err error) error {
	if known := new(api.Error); errors.As(err, &known) && known.Code == api.CodeNotFound {
		return nil
	}
	return err
}

// endLeftovers ends what runs for clients of a server that was killed: none of them is connected any more.
func (b *Broker) endLeftovers(ctx context.Context) {
	for _, role := range []string{roleKernel, roleCommands} {
		cursor := ""
		for {
			page, err := b.sessions.List(ctx, b.Owner, session.Filter{
				Metadata: map[string]string{metaRole: role}, Page: api.PageQuery{Limit: 100, Cursor: cursor},
			})
			if err != nil {
				b.Log.Error("list sessions of hermes that an earlier server left", "error", err)
				return
			}
			for _, one := range page.Items {
				if err := b.endLeftover(ctx, one.ID, role); err != nil && ctx.Err() == nil {
					b.Log.Error("end what an earlier server left for hermes", "session", one.ID, "error", err)
				}
			}
			if cursor = page.NextCursor; cursor == "" {
				break
			}
		}
	}
}

func (b *Broker) endLeftover(ctx context.Context, id, role string) error {
	s, err := b.sessions.Get(b.Owner, id)
	if err != nil {
		return err
	}
	defer s.Release()
	if role == roleKernel {
		return b.remove(ctx, s)
	}
	programs, err := s.Programs().List(ctx)
	if err != nil {
		return fmt.Errorf("list programs: %w", err)
	}
	for _, one := range programs {
		if one.Tag == tag {
			err = errors.Join(err, endCommand(ctx, s, one.ID))
		}
	}
	return err
}
