package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"talaria/api"
	"talaria/client"
)

// questionTime bounds how long a key press waits for an answer of the kernel.
const questionTime = time.Second

// deleteTime bounds the deletion of a temporary session by a program that a signal ends.
const deleteTime = 5 * time.Second

func replCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "repl", Short: "Run Python interactively in a session", Args: arguments(0, 0),
		Long: `Run Python interactively in a session.

Without --session the command creates a new session and deletes it on exit. With --session it uses the session with that
id, creates it if it does not exist, and keeps it. Tab completes names, the up arrow recalls earlier lines, Ctrl-C
interrupts the running cell or clears the current input, and Ctrl-D exits. Images are drawn in kitty, Ghostty, WezTerm
and iTerm2.`,
		Example: `  talaria repl
  talaria repl --session work
  talaria repl --package requests --allow api.example.org:443`,
		RunE: func(cmd *cobra.Command, _ []string) error { return startRepl(cmd, flagOf(cmd, "session"), false) },
	}
	cmd.Flags().StringP("session", "s", "", "session to run in")
	cmd.Flags().String("artifacts", "", "folder to write changed files and images to")
	addSessionFlags(cmd.Flags())
	addConnection(cmd)
	return cmd
}

func attachCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "attach SESSION", Short: "Show a session's log, follow the running cell, and continue interactively", Args: arguments(1, 1),
		Example: `  talaria attach work`,
		RunE:    func(cmd *cobra.Command, args []string) error { return startRepl(cmd, args[0], true) },
	}
	cmd.Flags().String("artifacts", "", "folder to write changed files and images to")
	addConnection(cmd)
	return cmd
}

// repl is one interactive run.
type repl struct {
	viewer
	lines   *lineEditor
	socket  *client.Socket
	events  chan api.Event // closed when the socket has ended
	failure error          // why it ended
	typed   string         // the lines of the cell above the present one
	ctrlC   chan os.Signal
	ending  chan os.Signal
}

func startRepl(cmd *cobra.Command, session string, attach bool) error {
	if !isTerminal(cmd.InOrStdin()) || !isTerminal(cmd.OutOrStdout()) {
		return usagef("%s needs a terminal; %s exec reads cells from files and pipes", cmd.CommandPath(), program)
	}
	c, err := connect(cmd)
	if err != nil {
		return err
	}
	r := &repl{viewer: *newViewer(cmd, c), events: make(chan api.Event), ctrlC: make(chan os.Signal, 1), ending: make(chan os.Signal, 1)}
	r.pictures, r.session, r.artifacts = "--artifacts DIR saves it", session, flagOf(cmd, "artifacts")
	if !attach {
		if r.request, err = sessionRequest(cmd); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(cmd.Context())) // Ctrl-C is for the cell
	defer cancel()
	signal.Notify(r.ctrlC, os.Interrupt)
	defer signal.Stop(r.ctrlC)
	signal.Notify(r.ending, endings...) // not by cmd.Context, which the first Ctrl-C ends
	defer signal.Stop(r.ending)
	return reached(c.url, r.run(ctx, attach))
}

func (r *repl) run(ctx context.Context, attach bool) (err error) {
	temporary := false
	switch {
	case attach:
	case r.session != "":
		_, err = r.ensure(ctx)
	default:
		var made api.Session
		if made, err = r.client.CreateSession(ctx, r.request); err == nil {
			r.session, temporary = made.ID, true
			defer func() { err = errors.Join(err, r.deleteTemporary(ctx)) }()
		}
	}
	if err != nil {
		return err
	}
	options := client.AttachOptions{Reconnect: true}
	if attach {
		s, err := r.client.Session(ctx, r.session)
		if err != nil {
			return err
		}
		options.After = new(oldest(s, r.out.Writer))
	}
	if r.socket, err = r.client.Attach(ctx, r.session, options); err != nil {
		return err
	}
	pumping, stop := context.WithCancel(ctx)
	defer func() { stop(); r.socket.Close() }()
	go r.pump(pumping)
	r.lines = newLineEditor(r.complete)
	defer func() { err = errors.Join(err, r.lines.Close()) }()
	go r.endBySignal(pumping, temporary)
	s := r.socket.Hello().Session
	fmt.Fprintf(r.out, "Python %s in session %s. Ctrl-D exits.\n", s.Kernel.Python, s.ID)
	if attach {
		if err := r.catchUp(ctx, s); err != nil {
			return err
		}
	}
	if err := r.loop(ctx); err != nil {
		return err
	}
	if r.unsaved.Load() {
		return exitError(exitFailed) // notSaved has said why
	}
	return nil
}

// endBySignal ends the program when a signal says so: what is typed at a prompt would go on waiting.
func (r *repl) endBySignal(ctx context.Context, temporary bool) {
	select {
	case s := <-r.ending:
		if temporary {
			deleting, cancel := context.WithTimeout(context.Background(), deleteTime)
			defer cancel()
			_ = r.deleteTemporary(deleting)
		}
		_ = r.lines.Close()
		os.Exit(signalled{s.(syscall.Signal)}.status())
	case <-ctx.Done():
	}
}

// pump takes events from the socket until ctx ends.
func (r *repl) pump(ctx context.Context) {
	defer close(r.events)
	for {
		event, err := r.socket.Next(ctx)
		if err != nil {
			r.failure = err
			return
		}
		select {
		case r.events <- event:
		case <-ctx.Done():
			return
		}
	}
}

// catchUp shows the log up to the present, and what runs until it ends.
func (r *repl) catchUp(ctx context.Context, s api.Session) error {
	for seq, busy := int64(0), s.State == api.StateBusy; seq < s.LastSeq || busy; {
		event, err := r.next(ctx, "")
		if err != nil {
			return err
		}
		seq = event.Seq
		if event, err = event.Decoded(); err != nil {
			return err
		}
		switch b := event.Body.(type) {
		case api.ExecutionFinished:
			busy = busy && seq <= s.LastSeq
		case api.InputRequested:
			if seq > s.LastSeq || s.PendingInput != nil && s.PendingInput.RequestID == b.RequestID {
				if err := r.answer(ctx, b); err != nil {
					return err
				}
			}
			continue
		}
		if err := r.viewer.event(ctx, event); err != nil {
			return err
		}
	}
	return nil
}

// next waits for an event; Ctrl-C meanwhile interrupts the execution, or with "" whatever runs.
func (r *repl) next(ctx context.Context, execution string) (api.Event, error) {
	for {
		select {
		case event, more := <-r.events:
			if !more {
				return event, r.failure
			}
			return event, nil
		case <-r.ctrlC:
			if err := r.client.Interrupt(ctx, r.session, execution); err != nil {
				return api.Event{}, err
			}
		}
	}
}

// loop reads and runs cells until Ctrl-D.
func (r *repl) loop(ctx context.Context) error {
	for {
		if err := r.drain(ctx); err != nil {
			return err
		}
		code, err := r.read(ctx)
		switch {
		case errors.Is(err, io.EOF):
			fmt.Fprintln(r.out)
			return nil
		case errors.Is(err, errInterrupted):
			fmt.Fprintln(r.out, "KeyboardInterrupt")
			continue
		case err != nil:
			return err
		}
		switch strings.TrimSpace(code) {
		case "":
			continue
		case "exit", "quit", "exit()", "quit()":
			return nil
		}
		if err := r.cell(ctx, code); err != nil {
			return err
		}
	}
}

// drain shows what happened while nobody looked: output of threads, and cells of others.
func (r *repl) drain(ctx context.Context) error {
	for {
		select {
		case event, more := <-r.events:
			if !more {
				return r.failure
			}
			if err := r.viewer.event(ctx, event); err != nil {
				return err
			}
		default:
			return nil
		}
	}
}

// read reads lines until they are a whole cell.
func (r *repl) read(ctx context.Context) (string, error) {
	prompt, code, indent := ">>> ", "", ""
	for {
		r.typed = code
		line, err := r.lines.read(prompt, indent)
		if err != nil {
			return "", err
		}
		if strings.TrimSpace(line) == "" {
			line = "" // it ends a block
		}
		if code += line; code == "" {
			return "", nil
		}
		more := false
		if more, indent = r.incomplete(ctx, code, line); !more {
			return code, nil
		}
		prompt, code = "... ", code+"\n"
	}
}

// incomplete asks the kernel whether code needs further lines. Where it cannot answer, a block ends with an empty line.
func (r *repl) incomplete(ctx context.Context, code, last string) (more bool, indent string) {
	ctx, cancel := context.WithTimeout(ctx, questionTime)
	defer cancel()
	blank := strings.TrimSpace(last) == ""
	answer, err := r.socket.IsComplete(ctx, api.IsCompleteRequest{Code: &code})
	if err != nil {
		inBlock := strings.HasSuffix(strings.TrimSpace(last), ":") || strings.HasSuffix(last, `\`) || strings.Contains(code, "\n")
		return inBlock && !blank, indentAfter(last)
	}
	return answer.Status == api.SourceIncomplete, answer.Indent
}

// indentAfter is what the line after this one begins with, as far as a line alone can tell.
func indentAfter(line string) string {
	indent := line[:len(line)-len(strings.TrimLeft(line, " \t"))]
	if strings.HasSuffix(strings.TrimSpace(line), ":") {
		indent += "    "
	}
	return indent
}

// complete asks the kernel what could stand at a place.
func (r *repl) complete(line string, pos int) (matches []string, start, end int) {
	ctx, cancel := context.WithTimeout(context.Background(), questionTime)
	defer cancel()
	before := utf8.RuneCountInString(r.typed)
	code, at := r.typed+line, int64(before+pos)
	answer, err := r.socket.Complete(ctx, api.CompleteRequest{Code: &code, CursorPos: &at})
	if err != nil {
		return nil, 0, 0
	}
	for i, m := range answer.Matches {
		answer.Matches[i] = escapeControls(m, `\x%02x`)
	}
	return answer.Matches, int(answer.CursorStart) - before, int(answer.CursorEnd) - before
}

// cell runs a cell and shows its events until it has ended.
func (r *repl) cell(ctx context.Context, code string) error {
	select {
	case <-r.ctrlC: // it was pressed before
	default:
	}
	id, err := r.socket.Execute(ctx, api.ExecutionRequest{Code: &code})
	if err != nil {
		return err
	}
	for {
		event, err := r.next(ctx, id)
		if err != nil {
			return err
		}
		if event, err = event.Decoded(); err != nil {
			return err
		}
		if event.ExecutionID != id {
			if err := r.viewer.event(ctx, event); err != nil {
				return err
			}
			continue
		}
		if asked, ok := event.Body.(api.InputRequested); ok {
			if err := r.answer(ctx, asked); err != nil {
				return err
			}
			continue
		}
		done, err := r.show(ctx, event)
		if err != nil {
			return err
		}
		if done != nil {
			if done.Status != api.StatusOK && done.Status != api.StatusError {
				fmt.Fprintln(r.out, styled(r.out.Writer, dim, fmt.Sprintf("[%s; variables %s]", done.Status, done.State)))
			}
			return nil
		}
	}
}

// answer reads an answer to input() from the terminal; Ctrl-C interrupts the cell instead.
func (r *repl) answer(ctx context.Context, asked api.InputRequested) error {
	prompt := asked.Prompt
	if i := strings.LastIndexByte(prompt, '\n'); i >= 0 {
		r.print(r.out, prompt[:i+1])
		prompt = prompt[i+1:]
	}
	line, err := r.lines.ask(strings.Map(printable, prompt), asked.Password)
	switch {
	case errors.Is(err, errInterrupted):
		return r.client.Interrupt(ctx, r.session, "")
	case errors.Is(err, io.EOF):
		line = endOfInput
	case err != nil:
		return err
	}
	return reply(ctx, r.socket, asked, line)
}

// printable drops what a prompt cannot hold.
func printable(c rune) rune {
	if c == '\t' {
		return ' '
	}
	if harmful(c) || c < ' ' {
		return -1
	}
	return c
}
