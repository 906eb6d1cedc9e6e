package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"os/signal"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"talaria/api"
	"talaria/client"
)

func execCommand() *cobra.Command {
	var e execution
	cmd := &cobra.Command{
		Use:   "exec [-c CODE | FILE | -]",
		Short: "Run a cell and stream its output",
		Long: `Run a cell and stream its output.

Without --session, the cell runs in a temporary session, which is deleted afterwards. With --session, it runs in the
session with that id, which is created if necessary, and kept. Ctrl-C interrupts the cell.

Exit status: 0 success, 1 the cell raised an exception or was cancelled, 2 wrong usage, 3 no server answers, 124 the
cell timed out, 130 it was interrupted, 137 its kernel died. A cell that calls sys.exit(N) exits with N.`,
		Example: `  talaria exec -c 'print(6 * 7)'
  talaria exec --session work analysis.py
  talaria exec --package rich --memory 4GiB report.py
  echo 'df.describe()' | talaria exec --session work -`,
		Args: arguments(0, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if e.timeout < 0 {
				return usagef("--timeout must be at least 0; 0 means the session's own timeout")
			}
			code, err := e.source(cmd, args)
			if err != nil {
				return err
			}
			if e.request, err = sessionRequest(cmd); err != nil {
				return err
			}
			c, err := connect(cmd)
			if err != nil {
				return err
			}
			e.client = c.Client
			e.answers.in = cmd.InOrStdin()
			e.out, e.err = e.screen(cmd.OutOrStdout()), e.screen(cmd.ErrOrStderr())
			return reached(c.url, e.run(cmd.Context(), code))
		},
	}
	f := cmd.Flags()
	f.StringVarP(&e.code, "code", "c", "", "the cell's source")
	f.StringVarP(&e.session, "session", "s", "", "session to run in")
	f.StringVar(&e.artifacts, "artifacts", "", "folder to write changed files and images to")
	f.Var((*secondsFlag)(&e.timeout), "timeout", "timeout in seconds, or with a unit such as 5m (default: the session's)")
	f.BoolVar(&e.json, "json", false, "print events as they arrive, one per line")
	f.BoolVar(&e.raw, "raw", false, "pass control sequences from the cell to the terminal; only for cells that you trust")
	addSessionFlags(f)
	addConnection(cmd)
	return cmd
}

// secondsFlag is the value of a flag that takes a time: a number of seconds, or one with a unit.
type secondsFlag float64

func (s *secondsFlag) String() string { return strconv.FormatFloat(float64(*s), 'g', -1, 64) }

// Type implements pflag.Value: help shows it as the name of the value.
func (*secondsFlag) Type() string { return "seconds" }

func (s *secondsFlag) Set(text string) error {
	x, err := strconv.ParseFloat(text, 64)
	if d, unitErr := time.ParseDuration(text); err != nil && unitErr == nil {
		x, err = d.Seconds(), nil
	}
	if err != nil || math.IsNaN(x) || math.IsInf(x, 0) {
		return errors.New("must be a number of seconds, or a time with a unit such as 90s or 5m")
	}
	*s = secondsFlag(x)
	return nil
}

// execution is one run of the command.
type execution struct {
	client    *client.Client
	request   api.SessionRequest
	code      string
	session   string
	artifacts string
	timeout   float64
	json      bool
	raw       bool
	answers   answers
	out, err  *screen
	images    int
	pictures  string      // how to save one; "": --artifacts
	unsaved   atomic.Bool // a file for artifacts was not saved
	failed    error       // why output was lost
	explains  bool        // how the cell ended, so that the traceback of a timeout waits for that
	stopped   []string
	stop      func() // interrupts the cell
}

// screen is where output of the cell goes.
type screen struct {
	io.Writer
	terminal bool // whose control sequences are not the cell's to send
	text     terminalText
}

func (e *execution) screen(w io.Writer) *screen {
	return &screen{Writer: w, terminal: isTerminal(w) && !e.raw}
}

// source is the cell, from the flag, a file or the standard input.
func (e *execution) source(cmd *cobra.Command, args []string) (string, error) {
	switch {
	case cmd.Flags().Changed("code") && len(args) > 0:
		return "", usagef("give -c or a file, not both")
	case cmd.Flags().Changed("code"):
		return e.code, nil
	case len(args) == 0 || args[0] == "-":
		if isTerminal(cmd.InOrStdin()) {
			fmt.Fprintf(cmd.ErrOrStderr(), "reading the cell from the terminal; end it with Ctrl-D, or use %s repl to work interactively\n", program)
		}
		b, err := io.ReadAll(cmd.InOrStdin())
		if err != nil {
			return "", err
		}
		return sourceText("standard input", b)
	}
	b, err := os.ReadFile(args[0])
	if err != nil {
		return "", usagef("%v", err)
	}
	return sourceText(args[0], b)
}

// sourceText is a file's text as Python reads it, without a byte order mark. Other bytes would reach the server changed.
func sourceText(name string, b []byte) (string, error) {
	b = bytes.TrimPrefix(b, []byte("\ufeff"))
	if utf8.Valid(b) {
		return string(b), nil
	}
	number := 0
	for line := range bytes.Lines(b) {
		if number++; !utf8.Valid(line) {
			break
		}
	}
	return "", usagef("%s, line %d: not UTF-8; convert the file, for example with iconv -f LATIN1 -t UTF-8", quoted(name), number)
}

func (e *execution) run(ctx context.Context, code string) (err error) {
	// A first Ctrl-C interrupts the cell, as does output that nobody takes; what is left to do is bounded by the server's time-out.
	signal.Ignore(syscall.SIGPIPE) // or it would end this program before the session is deleted
	interrupted, stop := context.WithCancel(ctx)
	defer stop()
	e.stop = stop
	ctx, fail := context.WithCancelCause(context.WithoutCancel(ctx))
	defer fail(nil)
	var found api.Session
	if e.session == "" {
		if found, err = e.client.CreateSession(ctx, e.request); err != nil {
			return err
		}
		e.session = found.ID
		defer func() { err = errors.Join(err, e.deleteTemporary(context.WithoutCancel(ctx))) }()
	} else if found, err = e.ensure(ctx); err != nil {
		return err
	}
	session := found.ID
	socket, err := e.client.Attach(ctx, session, client.AttachOptions{Reconnect: true, After: &found.LastSeq})
	if err != nil {
		return err
	}
	defer socket.Close()
	e.explains = true
	req := api.ExecutionRequest{Code: &code}
	if e.timeout > 0 {
		req.TimeoutS = &e.timeout
	}
	id, err := socket.Execute(ctx, req)
	if err != nil {
		return err
	}
	defer context.AfterFunc(interrupted, func() {
		untilAnswered(ctx, e.err.Writer, "interrupt", func() error { return e.client.Interrupt(ctx, session, id) })
	})()
	defer e.answers.close()
	for {
		event, err := socket.Next(ctx)
		if err != nil {
			return err
		}
		if event.ExecutionID != id {
			if err := e.reportInstallation(event); err != nil {
				return err
			}
			continue
		}
		if event, err = event.Decoded(); err != nil {
			return err
		}
		switch b := event.Body.(type) {
		case api.InputRequested:
			e.answers.begin(interrupted, b.Password, func(ctx context.Context, line string) {
				if err := reply(ctx, socket, b, line); err != nil && ctx.Err() == nil {
					fail(err)
				}
			})
			e.print(e.err, b.Prompt) // the terminal shows nothing more of what is typed or pasted from here on
		case api.InputClosed:
			e.answers.close()
		}
		done, err := e.show(ctx, event)
		if done != nil || err != nil {
			return errors.Join(err, e.end(interrupted, done))
		}
	}
}

// reply answers a question of the cell, unless somebody else was faster.
func reply(ctx context.Context, socket *client.Socket, q api.InputRequested, line string) error {
	_, err := socket.Do(ctx, "input_reply", map[string]any{"request_id": q.RequestID, "value": line})
	if errors.Is(err, api.Errorf(api.CodeNoInputPending, "")) {
		return nil
	}
	return err
}

// end is the exit status as an error, where a signal or lost output may have ended the cell.
func (e *execution) end(interrupted context.Context, done *api.Execution) error {
	err := e.status(done)
	if e.failed != nil {
		if errors.Is(e.failed, syscall.EPIPE) { // as the shell shows for other programs in a pipe
			return exitError(128 + int(syscall.SIGPIPE))
		}
		return fmt.Errorf("write the output: %w", withoutPath(e.failed))
	}
	var cause signalled
	if done != nil && (done.Status == api.StatusInterrupted || done.Status == api.StatusCancelled) && errors.As(context.Cause(interrupted), &cause) {
		return exitError(cause.status())
	}
	if err == nil && e.unsaved.Load() {
		return exitError(exitFailed)
	}
	return err
}

// untilAnswered repeats a call until the server answers it, be it with a refusal, or ctx ends.
func untilAnswered(ctx context.Context, stderr io.Writer, name string, call func() error) {
	for pause := 100 * time.Millisecond; ; pause = min(2*pause, 2*time.Second) {
		err := call()
		refused := new(api.Error)
		if err == nil || errors.As(err, &refused) && refused.Status < 500 || ctx.Err() != nil {
			return
		}
		if pause == 100*time.Millisecond {
			fmt.Fprintf(stderr, "talaria: the %s has not reached the server, and is sent again until it does; Ctrl-C ends this program\n", name)
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return
		}
	}
}

// ensure gets or creates the named session. A token for that session alone may not create it, and needs not.
func (e *execution) ensure(ctx context.Context) (api.Session, error) {
	found, _, err := e.client.EnsureSession(ctx, e.session, e.request)
	if errors.Is(err, api.Errorf(api.CodeForbidden, "")) && reflect.DeepEqual(e.request, api.SessionRequest{}) {
		found, err = e.client.Session(ctx, e.session)
	}
	return found, err
}

// reportInstallation prints why the packages of --package could not be installed. The session runs the cell without them.
func (e *execution) reportInstallation(event api.Event) error {
	if e.request.Packages == nil {
		return nil
	}
	event, err := event.Decoded()
	if b, ok := event.Body.(api.ErrorEvent); ok && b.Ename == "InstallError" {
		e.print(e.err, "talaria: --package: "+b.Evalue+"\n")
	}
	return err
}

// show prints an event; it returns the execution with its last one.
func (e *execution) show(ctx context.Context, event api.Event) (*api.Execution, error) {
	if e.json {
		if err := e.printEvent(event); err != nil {
			return nil, err
		}
	}
	event, err := event.Decoded()
	if err != nil {
		return nil, err
	}
	switch b := event.Body.(type) {
	case api.Stream:
		if b.Name == "stderr" {
			e.print(e.err, b.Text)
		} else {
			e.print(e.out, b.Text)
		}
	case api.DisplayData:
		return nil, e.bundle(b.Data)
	case api.ExecuteResult:
		return nil, e.bundle(b.Data)
	case api.ErrorEvent:
		if e.explains && slices.Contains(stops, b.Ename) {
			e.stopped = b.Traceback
			return nil, nil
		}
		e.print(e.err, colourTraceback(e.err.Writer, strings.Join(b.Traceback, "\n")+"\n"))
	case api.ArtifactEvent:
		e.artifact(ctx, b)
	case api.ExecutionFinished:
		return &b.Execution, nil
	}
	return nil, nil
}

// printEvent prints an event as a line of JSON.
func (e *execution) printEvent(event api.Event) error {
	line, err := api.Marshal(event)
	if err != nil {
		return err
	}
	if e.out.terminal {
		line = []byte(escapeControls(string(line), `\u%04x`))
	}
	_, err = fmt.Fprintf(e.out, "%s\n", line)
	e.wrote(err)
	return nil
}

// wrote notes the first error of the output, and interrupts the cell whose output nobody takes.
func (e *execution) wrote(err error) {
	if err == nil || e.failed != nil {
		return
	}
	e.failed = err
	if e.stop != nil {
		e.stop()
	}
}

func (e *execution) print(to *screen, text string) {
	if e.json {
		return
	}
	if to.terminal {
		text = to.text.clean(text)
	}
	_, err := fmt.Fprint(to, text)
	e.wrote(err)
}

// bundle prints a value: its image, saved where a folder was given or drawn where the terminal can, else its text.
func (e *execution) bundle(data api.MIMEBundle) error {
	png, pictured := data["image/png"]
	if pictured && !e.json {
		var b []byte
		if err := json.Unmarshal(png, &b); err != nil {
			return fmt.Errorf("an image of the cell: %w", err)
		}
		if e.artifacts != "" {
			e.images++
			e.save(fmt.Sprintf("display-%d.png", e.images), bytes.NewReader(b))
			return nil
		}
		if drawPicture(e.out.Writer, b) {
			return nil
		}
		defer e.print(e.err, "[image; "+first(e.pictures, "--artifacts DIR saves it")+"]\n")
	}
	var text string
	if raw, ok := data["text/plain"]; ok && json.Unmarshal(raw, &text) == nil {
		e.print(e.out, text+"\n")
	}
	return nil
}

// artifact saves a changed file. One whose bytes were not kept is in the workspace, where a later cell may have changed it.
func (e *execution) artifact(ctx context.Context, a api.ArtifactEvent) {
	if e.artifacts == "" || a.Change == api.Deleted {
		return
	}
	get := func() (*client.Download, error) { return e.client.GetArtifact(ctx, a.SHA256) }
	if a.Omitted {
		get = func() (*client.Download, error) { return e.client.GetFile(ctx, e.session, a.Path) }
	}
	d, err := get()
	if err != nil {
		e.notSaved(fmt.Errorf("save %q: %w", a.Path, err))
		return
	}
	defer d.Close()
	e.save(a.Path, d)
}

// notSaved says why a file was not saved. The session may have the only copy of it.
func (e *execution) notSaved(err error) {
	e.unsaved.Store(true)
	fmt.Fprintln(e.err.Writer, "talaria:", err)
}

// deleteTemporary deletes the temporary session, unless it has files that were to be saved.
func (e *execution) deleteTemporary(ctx context.Context) error {
	if !e.unsaved.Load() {
		return e.client.DeleteSession(ctx, e.session)
	}
	fmt.Fprintf(e.err.Writer, "talaria: session %[1]s is kept, since it has files that were not saved; %[2]s files get %[1]s PATH saves one, "+
		"and %[2]s sessions rm %[1]s deletes the session\n", e.session, program)
	return nil
}

// save writes below the folder that was given, and nowhere else: the name comes from the sandbox.
func (e *execution) save(name string, from io.Reader) {
	if err := e.saveBelow(name, from); err != nil {
		e.notSaved(fmt.Errorf("save %q: %w", name, withoutPath(err)))
		return
	}
	e.print(e.err, fmt.Sprintf("saved %s\n", quoted(filepath.Join(e.artifacts, name))))
}

func (e *execution) saveBelow(name string, from io.Reader) error {
	if err := os.MkdirAll(e.artifacts, 0o755); err != nil {
		return err
	}
	root, err := os.OpenRoot(e.artifacts)
	if err != nil {
		return err
	}
	defer root.Close()
	if dir := filepath.Dir(name); dir != "." {
		if err := root.MkdirAll(dir, 0o755); err != nil {
			return err
		}
	}
	to, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o644)
	if err != nil {
		return err
	}
	_, err = io.Copy(to, from)
	return errors.Join(err, to.Close())
}

// withoutPath drops the path from an error of package os, since it may hold control sequences of a terminal.
func withoutPath(err error) error {
	var at *fs.PathError
	if errors.As(err, &at) {
		return at.Err
	}
	return err
}

// quoted is a path in quotes, where what is in it needs them.
func quoted(path string) string {
	if q := strconv.Quote(path); q != `"`+path+`"` {
		return q
	}
	return path
}

// endOfInput is the answer that makes input() raise EOFError.
const endOfInput = "\x04"

// The exceptions that a timeout raises: the first where the cell is, the other if it ignores that.
const (
	interruptName = "KeyboardInterrupt"
	timeoutName   = "ExecutionTimeout"
)

var stops = []string{interruptName, timeoutName}

// where is a traceback without the exception of a timeout and what the server says about it: it shows where the cell was.
func where(traceback []string) string {
	lines := strings.Split(strings.Join(traceback, "\n"), "\n")
	for i, line := range slices.Backward(lines) {
		if strings.HasPrefix(line, interruptName) || strings.HasPrefix(line, timeoutName) {
			lines = slices.Delete(lines, i, i+1)
			break
		}
	}
	lines = slices.DeleteFunc(lines, func(line string) bool { return strings.HasPrefix(line, "the cell exceeded its timeout of ") })
	if text := strings.Join(lines, "\n"); text != "" {
		return text + "\n"
	}
	return ""
}

// status is the exit status as an error.
func (e *execution) status(done *api.Execution) error {
	if done == nil {
		return nil
	}
	if done.Status == api.StatusTimeout {
		after := (time.Duration(done.Usage.DurationMS) * time.Millisecond).Round(100 * time.Millisecond)
		how := fmt.Sprintf("the cell was stopped after %v", after)
		if done.Error != nil && done.Error.Ename == timeoutName {
			how = fmt.Sprintf("the cell ignored the interrupt, so its kernel was killed after %v", after)
		}
		e.print(e.err, where(e.stopped))
		return e.exit(exitTimeout, fmt.Sprintf("timeout: %s; variables %s; "+
			"to allow more time, use exec --timeout SECONDS, or raise the session's limit execution_timeout_s", how, done.State))
	}
	if len(e.stopped) > 0 {
		e.print(e.err, colourTraceback(e.err.Writer, strings.Join(e.stopped, "\n")+"\n"))
	}
	switch done.Status {
	case api.StatusOK:
		return nil
	case api.StatusInterrupted:
		return e.exit(exitInterrupted, fmt.Sprintf("interrupted; variables %s", done.State))
	case api.StatusDied:
		return e.exit(exitDied, fmt.Sprintf("the kernel died (%s); variables %s", done.Reason, done.State))
	case api.StatusCancelled:
		return e.exit(exitFailed, fmt.Sprintf("the cell did not run (%s); variables %s", done.Reason, done.State))
	}
	if done.Error != nil && done.Error.Ename == "SystemExit" {
		return systemExit(done.Error.Evalue)
	}
	return exitError(exitFailed)
}

// systemExit is the status that Python would exit with.
func systemExit(value string) error {
	n, err := strconv.Atoi(value)
	switch {
	case err == nil && n&0xff == 0, value == "", value == "None":
		return nil
	case err == nil:
		return exitError(n & 0xff)
	}
	return exitError(exitFailed)
}

func (e *execution) exit(code exitError, message string) error {
	e.print(e.err, "talaria: "+message+"\n")
	return code
}
