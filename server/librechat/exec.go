package librechat

import (
	"context"
	"errors"
	"iter"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"

	"talaria/api"
	"talaria/server/transfer"
)

// What a request may have.
const (
	maxArgs  = 1000
	maxFiles = 1000
	maxHint  = 1024 // bytes of a hint and of a user's id
)

// execRequest is the body of POST exec and of the first POST exec/programmatic. LibreChat sends fields of many versions; those that
// are not here mean nothing to this server.
type execRequest struct {
	Lang      string    `json:"lang"`
	Code      *string   `json:"code"`
	Args      []string  `json:"args"`
	UserID    string    `json:"user_id"`
	SessionID string    `json:"session_id"`           // of an earlier answer
	Hint      string    `json:"runtime_session_hint"` // names the conversation
	Files     []fileRef `json:"files"`
	TimeoutMS float64   `json:"timeout"`
	Tools     []tool    `json:"tools"`

	// A POST exec/programmatic with a token goes on with an earlier one.
	ContinuationToken string       `json:"continuation_token"`
	ToolResults       []toolResult `json:"tool_results"`
}

// fileRef names a file of an earlier answer that the code finds in its directory.
type fileRef struct {
	ID               string `json:"id"`
	Name             string `json:"name"`
	StorageSessionID string `json:"storage_session_id"`
	SessionID        string `json:"session_id"` // as older clients call it
}

func (f fileRef) storage() string {
	if f.StorageSessionID != "" {
		return f.StorageSessionID
	}
	return f.SessionID
}

// decodeExec reads and checks a body.
func decodeExec(body []byte) (r execRequest, err error) {
	if err := api.UnmarshalLoose(body, &r); err != nil {
		return r, err
	}
	switch {
	case r.Code == nil && r.ContinuationToken == "":
		err = api.Errorf(api.CodeInvalidRequest, "field \"code\" is missing")
	case len(r.Args) > maxArgs:
		err = api.Errorf(api.CodeInvalidRequest, "\"args\" has %d arguments, and the limit is %d", len(r.Args), maxArgs)
	case len(r.Files) > maxFiles:
		err = api.Errorf(api.CodeInvalidRequest, "\"files\" has %d files, and the limit is %d", len(r.Files), maxFiles)
	case len(r.Hint) > maxHint, len(r.UserID) > maxHint:
		err = api.Errorf(api.CodeInvalidRequest, "\"runtime_session_hint\" and \"user_id\" may have at most %d bytes each", maxHint)
	case r.TimeoutMS < 0:
		err = api.Errorf(api.CodeInvalidRequest, "\"timeout\" must not be negative; leave it out for the server's limit")
	}
	for _, a := range r.Args {
		if strings.ContainsAny(a, "\x00\n\r") {
			return r, api.Errorf(api.CodeInvalidRequest, "\"args\" must not contain a NUL or a line break")
		}
	}
	return r, err
}

// timeout returns what the client allows, or 0.
func (r execRequest) timeout() time.Duration {
	return time.Duration(min(r.TimeoutMS, 24*3600*1000) * float64(time.Millisecond))
}

func (q *request) read() (execRequest, error) {
	data, release, err := q.caller.Body()
	defer release()
	if err != nil {
		return execRequest{}, err
	}
	return decodeExec(data)
}

// profiles are what a client may expect of the server: this one meets both.
var profiles = map[string]bool{"": true, "default": true, "stateful": true}

// refused answers requests for what this server does not have, and reports whether it did.
func (q *request) refused() bool {
	if profile := q.Header.Get("X-CodeAPI-Expected-Profile"); !profiles[profile] {
		transfer.WriteJSON(q.w, http.StatusConflict, map[string]any{"error": "execution_profile_mismatch", "code": "execution_profile_mismatch",
			"message": "Talaria has the profiles default and stateful"})
		return true
	}
	if q.Header.Get("X-LibreChat-Code-Workspace-ID") != "" {
		_ = q.unsupported("Talaria has no attached workspaces; it keeps the files of each conversation")
		return true
	}
	return false
}

// exec runs code and answers with its output.
func (h *Handler) exec(q *request) error {
	if q.refused() {
		return nil
	}
	r, err := q.read()
	if err != nil {
		return err
	}
	if r.Code == nil {
		return api.Errorf(api.CodeInvalidRequest, "field \"code\" is missing")
	}
	l, err := languageOf(r.Lang)
	if err != nil {
		return err
	}
	if l.run != "" {
		return h.runProgram(q, r, l)
	}
	w, err := h.workplace(q, r)
	if err != nil {
		return err
	}
	defer w.Release()
	if err := h.bring(q, w, r.Files); err != nil {
		return err
	}
	id, err := h.submit(q, w, l, r)
	if err != nil {
		return err
	}
	ctx, cancel := h.UntilDrain(q.Context())
	defer cancel()
	e, err := w.Wait(ctx, id)
	if err != nil {
		return h.left(ctx, q, w, id, err)
	}
	done, err := w.result(q.command(), e)
	if err != nil {
		return err
	}
	return q.answer(done)
}

// left ends an execution whose client has gone; what the server's shutdown ended is told.
func (h *Handler) left(ctx context.Context, q *request, w *workplace, id string, err error) error {
	switch {
	case q.Context().Err() != nil:
		return w.Interrupt(q.command(), id)
	case ctx.Err() != nil:
		return api.Errorf(api.CodeShuttingDown, "the server is shutting down; the code continues, and its files will be in the session")
	}
	return err
}

// submit queues the code.
func (h *Handler) submit(q *request, w *workplace, l language, r execRequest) (id string, err error) {
	code := l.cell(*r.Code, r.Args)
	if len(r.Args) == 0 || code != *r.Code { // not Python: the arguments are in the cell
		return w.submit(q.command(), api.ExecutionRequest{Code: &code}, r.timeout())
	}
	select {
	case h.argv <- struct{}{}:
		defer func() { <-h.argv }()
	case <-q.Context().Done():
		return "", context.Cause(q.Context())
	}
	set, silent := setArguments(r.Args), true
	if _, err := w.submit(q.command(), api.ExecutionRequest{Code: &set, Silent: &silent}, 0); err != nil {
		return "", err
	}
	id, err = w.submit(q.command(), api.ExecutionRequest{Code: &code}, r.timeout())
	unset := setArguments(nil)
	_, restored := w.submit(q.command(), api.ExecutionRequest{Code: &unset, Silent: &silent}, 0)
	return id, errors.Join(err, restored)
}

// setArguments returns a cell that sets a program's arguments. Strings in JSON are strings in Python, too.
func setArguments(args []string) string {
	text, err := api.Marshal(append([]string{"main.py"}, args...))
	if err != nil { // strings always encode
		panic(err)
	}
	return "import sys as _sys; _sys.argv[:] = " + string(text) + "; del _sys"
}

// submit queues a cell that nobody can answer questions of. A time that is longer than the operator's limit is that.
func (w *workplace) submit(ctx context.Context, req api.ExecutionRequest, timeout time.Duration) (string, error) {
	no := false
	req.AllowStdin = &no
	if timeout > 0 {
		seconds := timeout.Seconds()
		req.TimeoutS = &seconds
	}
	id, err := w.Submit(ctx, req, false)
	if known := new(api.Error); errors.As(err, &known) && known.Code == api.CodeLimitExceeded && req.TimeoutS != nil {
		req.TimeoutS = nil
		id, err = w.Submit(ctx, req, false)
	}
	return id, err
}

// result is the answer to a program that has ended.
type result struct {
	SessionID      string       `json:"session_id"`
	Stdout         string       `json:"stdout"`
	Stderr         string       `json:"stderr"`
	Files          []outputFile `json:"files,omitempty"`
	DeletedFiles   []string     `json:"deleted_files,omitempty"`
	RuntimeSession string       `json:"runtime_session_id,omitempty"`
	RuntimeStatus  string       `json:"runtime_status,omitempty"` // runtimeNew or runtimeReused
	Code           int          `json:"code"`
	Signal         string       `json:"signal,omitempty"`
	Message        string       `json:"message,omitempty"`
	Status         string       `json:"status"`
	WallTime       int64        `json:"wall_time"` // milliseconds
}

// outputFile is a file that the code has made or changed.
type outputFile struct {
	ID               string `json:"id"`
	Name             string `json:"name"`
	StorageSessionID string `json:"storage_session_id"`
	SessionID        string `json:"session_id"`
}

var exitStatus = regexp.MustCompile(`returned non-zero exit status (-?\d+)\.$|^(-?\d+)$`)

// printed folds what a program has printed from its events: displays, which LibreChat does not show, are left out. complete is
// false if something is missing. An exception is not among the outputs.
func printed(events iter.Seq2[api.Event, error]) (list []api.Output, complete bool, err error) {
	var fold api.Outputs
	begun := false
	for event, err := range events {
		if err == nil {
			event, err = event.Decoded()
		}
		if err != nil {
			return nil, false, err
		}
		fits := true
		switch body := event.Body.(type) {
		case api.ExecutionStarted:
			begun = true
		case api.Stream:
			fits = fold.AddWithin(body, len(body.Text), api.MaxAnswer/2)
		case api.ExecuteResult:
			body.Data = api.MIMEBundle{"text/plain": body.Data["text/plain"]}
			fits = fold.AddWithin(body, len(body.Data["text/plain"]), api.MaxAnswer/2)
		case api.DisplayData:
			fold.Add(api.DisplayData{}) // it carries out a clear_output that waits
		case api.ClearOutput:
			fold.Add(body)
		}
		if !fits {
			return fold.List(), false, nil
		}
	}
	return fold.List(), begun, nil
}

// result translates an execution that has ended.
func (w *workplace) result(ctx context.Context, e api.Execution) (result, error) {
	outputs, complete := e.Outputs, true
	if e.OutputsOmitted {
		var err error
		if outputs, complete, err = printed(w.Journal().ExecutionEvents(ctx, e.ID, 0)); err != nil {
			return result{}, err
		}
	}
	return w.translate(e, outputs, complete), nil
}

// translate is result with the outputs, and whether they are all that the program printed.
func (w *workplace) translate(e api.Execution, outputs []api.Output, complete bool) result {
	r := result{SessionID: w.ID(), Status: string(e.Status), WallTime: e.Usage.DurationMS}
	if w.conversation {
		r.RuntimeSession, r.RuntimeStatus = w.ID(), w.status
	}
	var stdout, stderr strings.Builder
	stderr.WriteString(w.notes)
	failed := false
	raise := func(e api.ErrorOutput) {
		failed, r.Code = true, 1
		if text := r.exception(e); text != "" {
			stderr.WriteString(text + "\n")
		}
	}
	for _, o := range outputs {
		switch {
		case o.OutputType == "stream" && o.Name == "stderr":
			stderr.WriteString(o.Text)
		case o.OutputType == "stream":
			stdout.WriteString(o.Text)
		case o.OutputType == "execute_result": // Python programs print; the value of the last line is for those that forgot
			var text string
			if api.UnmarshalLoose(o.Data["text/plain"], &text) == nil {
				stdout.WriteString(text + "\n")
			}
		case o.OutputType == "error":
			raise(o.Error)
		}
	}
	if e.Error != nil && !failed {
		raise(*e.Error)
	}
	if e.Status != api.StatusOK && r.Code == 0 && (e.Status != api.StatusError || !failed) {
		r.Code = 1
	}
	if e.Status != api.StatusOK && e.Status != api.StatusError {
		r.Message = ended(e)
		if text := stderr.String(); text != "" && !strings.HasSuffix(text, "\n") {
			stderr.WriteByte('\n')
		}
		stderr.WriteString(r.Message + "\n")
	}
	if e.TruncatedBytes > 0 {
		stderr.WriteString(strconv.FormatInt(e.TruncatedBytes, 10) + " bytes of output were left out: print less, or write to a file\n")
	}
	if !complete {
		stderr.WriteString("some output was left out: print less, or write to a file\n")
	}
	r.Stdout, r.Stderr = w.Redacted(stdout.String()), w.Redacted(stderr.String())
	for _, a := range e.Artifacts {
		if a.Change == api.Deleted {
			r.DeletedFiles = append(r.DeletedFiles, a.Path)
			continue
		}
		r.Files = append(r.Files, outputFile{ID: fileID(a.Path), Name: a.Path, StorageSessionID: w.ID(), SessionID: w.ID()})
	}
	return r
}

// exception sets the exit code of an exception, and returns what a program would have written about it. That of a script is its
// own business, which it has written itself.
func (r *result) exception(e api.ErrorOutput) string {
	found := exitStatus.FindStringSubmatch(e.Evalue)
	switch {
	case e.Ename == "SystemExit" && (e.Evalue == "" || e.Evalue == "None"):
		r.Code = 0
		return ""
	case found != nil && (e.Ename == "SystemExit" || e.Ename == "CalledProcessError" && len(e.Traceback) > 2 && strings.Contains(e.Traceback[2], "%%script")):
		r.Code, _ = strconv.Atoi(found[1] + found[2])
		return ""
	case e.Ename == "SystemExit":
		return e.Evalue
	}
	return strings.TrimRight(strings.Join(e.Traceback, "\n"), "\n")
}

// ended says how an execution ended that raised nothing in Python, and what became of its variables.
func ended(e api.Execution) string {
	kept := "the variables and files are kept"
	if e.State == api.VariablesLost {
		kept = "the variables are lost, the files are kept"
	}
	switch e.Status {
	case api.StatusTimeout:
		return "Time limit exceeded; " + kept
	case api.StatusDied:
		if outOfMemory(e) {
			return "Out of memory; " + kept
		}
		return "the interpreter ended (" + e.Reason + "); " + kept
	}
	return string(e.Status) + " (" + e.Reason + "); " + kept
}

func outOfMemory(e api.Execution) bool {
	return e.Reason == "memory_limit" || e.Reason == "out_of_memory"
}

// runProgram runs code of a compiled language in a sandbox of its own. It gets the text files of the request, and leaves none.
func (h *Handler) runProgram(q *request, r execRequest, l language) error {
	if h.Runs == nil {
		return api.Errorf(api.CodeInvalidRequest, "Unsupported language: %.40s; this server does not run programs outside sessions", r.Lang)
	}
	program := api.RunRequest{Language: l.run, Args: r.Args}
	inputs, notes, err := h.texts(q, r.Files)
	if err != nil {
		return err
	}
	if len(inputs) == 0 {
		program.Code = r.Code
	} else {
		program.EntryFile = l.entry(*r.Code)
		program.Files = []api.RunFile{{Name: program.EntryFile, Content: *r.Code}}
		for _, f := range inputs {
			if f.Name != program.EntryFile {
				program.Files = append(program.Files, f)
			}
		}
	}
	ctx, cancel := h.UntilDrain(q.Context())
	defer cancel()
	done, err := h.Runs.Run(ctx, q.caller.Owner, program)
	switch {
	case err != nil && q.Context().Err() != nil:
		return nil // nobody is there to be told
	case err != nil && ctx.Err() != nil:
		return api.Errorf(api.CodeShuttingDown, "the server is shutting down and ended the program; run it again once the server is back")
	case err != nil:
		return err
	}
	return q.answer(ran(q, r, done, notes))
}

// ran translates a program that has ended.
func ran(q *request, r execRequest, done api.RunResult, notes string) result {
	answer := result{
		SessionID: r.SessionID, Stdout: done.Stdout, Stderr: notes + done.Stderr, Code: done.ExitCode, Signal: done.Signal,
		Status: string(done.Verdict), WallTime: done.Usage.DurationMS,
	}
	if answer.SessionID == "" {
		answer.SessionID = randomID('p')
	}
	switch done.Verdict {
	case api.VerdictCompileError:
		if done.Compile != nil {
			answer.Stderr = notes + done.Compile.Stderr + done.Compile.Stdout
		}
	case api.VerdictTimeLimit:
		answer.Message = "Time limit exceeded"
	case api.VerdictMemoryLimit:
		answer.Message = "Out of memory"
	case api.VerdictOutputLimit:
		answer.Message = "stdout length exceeded"
	}
	if answer.Message != "" {
		answer.Stderr += answer.Message + "\n"
	}
	if answer.Code == 0 && done.Verdict != api.VerdictOK {
		answer.Code = 1
	}
	return answer
}
