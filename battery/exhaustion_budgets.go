package battery

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"

	"talaria/api"
)

// Budgets of these checks: small, so that little exceeds them.
const (
	artifactBudget = 8 << 20
	displayBudget  = 256 << 10
	logBudget      = 2 << 20
	textBudget     = 64 << 10 // of output
	answerBytes    = 24 << 20 // of one execution, or of one page of a list
	listedFiles    = 1000     // of one execution
)

// exhaustionBudgets are attempts to make the server keep, list or return more than a session's budgets allow. What the
// server keeps outlives the cell, and is judged by the contents of the log and the answers.
var exhaustionBudgets = []Check{
	{Name: "exhaustion/sparse-artifacts", Judge: within(budgets{"artifact_bytes": artifactBudget}, judgeSparseArtifacts)},
	{Name: "exhaustion/rewritten-artifacts", Judge: within(budgets{"artifact_bytes": artifactBudget}, judgeRewrittenArtifacts)},
	{Name: "exhaustion/many-artifacts", Judge: within(budgets{"artifact_bytes": artifactBudget}, judgeManyArtifacts)},
	{Name: "exhaustion/displays", Judge: within(budgets{"display_bytes": displayBudget, "output_bytes": textBudget}, judgeDisplays)},
	{Name: "exhaustion/displays-of-text", Judge: within(budgets{"display_bytes": displayBudget, "output_bytes": textBudget}, shows(`
for n in range(40): display({"text/plain": "x" * 50_000 + str(n)}, raw=True)`))},
	{Name: "exhaustion/updates", Judge: within(budgets{"display_bytes": displayBudget, "output_bytes": textBudget}, shows(`
shown = display({"text/html": ""}, raw=True, display_id=True)
for n in range(100): shown.update({"text/html": "x" * 20_000 + str(n)}, raw=True)`))},
	{Name: "exhaustion/clears", Judge: within(budgets{"display_bytes": displayBudget, "output_bytes": textBudget}, shows(`
forge(b'\n' + b'{"type":"clear","id":"CELL","wait":false}\n' * 12_000)`))},
	{Name: "exhaustion/full-answers", Judge: within(nil, judgeFullAnswers)},
	{Name: "exhaustion/long-paths", Judge: within(nil, judgeLongPaths)},
	{Name: "exhaustion/late-clears", Judge: within(budgets{"output_bytes": textBudget}, late(`
forge(b'\n' + b'{"type":"clear","id":"CELL","wait":false}\n' * 5_000)`))},
	{Name: "exhaustion/late-displays", Judge: within(budgets{"output_bytes": textBudget}, late(`
frame = b'\n{"type":"display","id":"CELL","data":{},"metadata":{"k":"' + b"y" * 1_000_000 + b'"}}\n'
for n in range(8): forge(frame)`))},
	{Name: "exhaustion/log", Judge: within(budgets{"log_bytes": logBudget}, judgeLog)},
}

// budgets are limits of a session by their JSON names.
type budgets map[string]int64

// within runs a judge in a session of its own that has the battery's limits and the budgets, and that must still work
// afterwards.
func within(more budgets, judge func(*Trial) error) func(*Trial) error {
	return func(t *Trial) error {
		limits := budgets{
			"memory_bytes": memoryBytes, "cpus": cpus, "pids": pids, "disk_bytes": diskBytes, "output_bytes": outputBytes,
		}
		for name, value := range more {
			limits[name] = value
		}
		req := map[string]any{"name": "battery", "limits": limits}
		if t.Server.Strict {
			req["isolation"] = api.IsolationStrict
		}
		body, err := json.Marshal(req)
		if err != nil {
			return err
		}
		a, err := t.send(t.Server.Token, http.MethodPost, "/v1/sessions", "application/json", string(body))
		var made struct{ ID string }
		if err == nil && (a.Status != http.StatusCreated || json.Unmarshal(a.Body, &made) != nil) {
			err = fmt.Errorf("the answer is %d %.300s", a.Status, a.Body)
		}
		if err != nil {
			return fmt.Errorf("make a session with %v: %w", more, err)
		}
		t.Session, t.mine = made.ID, append(t.mine, made.ID)
		return all(judge, (*Trial).Works)(t)
	}
}

// answer reads a whole answer below the session's path, up to a limit that no client could exceed.
func (t *Trial) answer(path, accept string) ([]byte, error) {
	req, err := http.NewRequestWithContext(t.ctx, http.MethodGet, t.Server.URL+"/v1/sessions/"+t.Session+path, nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer "+t.Server.Token)
	req.Header.Set("Accept", accept)
	res, err := t.Server.Client.HTTP.Do(req)
	if err != nil {
		return nil, fmt.Errorf("GET %s: %w", path, err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(io.LimitReader(res.Body, 256<<20))
	if err == nil && res.StatusCode != http.StatusOK {
		err = fmt.Errorf("status %d: %.300s", res.StatusCode, body)
	}
	if err != nil {
		return nil, fmt.Errorf("GET %s: %w", path, err)
	}
	return body, nil
}

// decoded reads and decodes an answer, and returns its size too.
func decoded[T any](t *Trial, path string) (v T, size int, err error) {
	body, err := t.answer(path, "application/json")
	if err == nil {
		err = json.Unmarshal(body, &v)
	}
	return v, len(body), err
}

// logged is an event of the log in its wire format.
type logged struct {
	Type        string                     `json:"type"`
	ExecutionID string                     `json:"execution_id"`
	Name        string                     `json:"name"`
	Text        string                     `json:"text"`
	Data        map[string]json.RawMessage `json:"data"`
	size        int
}

// log returns the events of the session's log.
func (t *Trial) log() (events []logged, err error) {
	body, err := t.answer("/events?follow=false", "application/x-ndjson")
	if err != nil {
		return nil, err
	}
	lines := bufio.NewScanner(bytes.NewReader(body))
	lines.Buffer(nil, len(body)+1)
	for lines.Scan() {
		if len(lines.Bytes()) == 0 {
			continue
		}
		e := logged{size: len(lines.Bytes())}
		var kind struct{ Type string }
		if err := json.Unmarshal(lines.Bytes(), &kind); err != nil {
			return nil, fmt.Errorf("read the log: %w", err)
		}
		if kind.Type == "artifact" { // its data is not a bundle
			e.Type = kind.Type
		} else if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			return nil, fmt.Errorf("read the log: %w", err)
		}
		events = append(events, e)
	}
	return events, nil
}

// usage returns a number of the session's usage, which must be there.
func (t *Trial) usage(what string) (int64, error) {
	session, _, err := decoded[struct{ Usage map[string]any }](t, "")
	if err != nil {
		return 0, err
	}
	n, ok := session.Usage[what].(float64)
	if !ok {
		return 0, fmt.Errorf("usage has no %s", what)
	}
	return int64(n), nil
}

// keepsArtifacts checks what the session reports as kept for artifacts against the budget.
func (t *Trial) keepsArtifacts() error {
	n, err := t.usage("artifact_bytes")
	if err == nil && n > artifactBudget {
		err = fmt.Errorf("%d bytes of artifacts are kept, the limit is %d", n, artifactBudget)
	}
	return err
}

// stored counts the artifacts whose bytes can be downloaded, and those bytes.
func (t *Trial) stored(digests []string) (n int, size int64, err error) {
	for _, digest := range digests {
		a, err := t.send(t.Server.Token, http.MethodGet, "/v1/artifacts/"+digest, "", "")
		if err != nil {
			return n, size, err
		}
		if a.Status == http.StatusOK {
			var one int64
			_, _ = fmt.Sscan(a.Header.Get("Content-Length"), &one) // 0 if it is missing
			n, size = n+1, size+one
		}
	}
	return n, size, nil
}

// listed is a file in the answer of an execution.
type listed struct {
	Path    string
	SHA256  string
	Omitted bool
}

// artifacts returns the files that an execution lists.
func (t *Trial) artifacts(execution string) ([]listed, error) {
	e, _, err := decoded[struct{ Artifacts []listed }](t, "/executions/"+execution)
	return e.Artifacts, err
}

// judgeSparseArtifacts makes files that are large and take no space. All of them must be listed.
func judgeSparseArtifacts(t *Trial) error {
	e, err := t.Run(`
for n in range(12):
    with open(f"/workspace/sparse{n}", "wb") as f: f.truncate((4 << 20) + n)`)
	if err != nil {
		return err
	}
	files, err := t.artifacts(e.ID)
	if err != nil {
		return err
	}
	for _, f := range files {
		if f.Omitted == (f.SHA256 != "") {
			return fmt.Errorf("%s is listed with the digest %q, and omitted is %t", f.Path, f.SHA256, f.Omitted)
		}
	}
	if len(files) != 12 {
		return fmt.Errorf("%d of 12 files are listed", len(files))
	}
	return t.keepsArtifacts()
}

// judgeRewrittenArtifacts writes different content into one file again and again. The newest version must be kept.
func judgeRewrittenArtifacts(t *Trial) error {
	var digests []string
	for range 5 {
		e, err := t.Run(`with open("/workspace/rewritten", "wb") as f: f.write(os.urandom(3 << 20))`)
		if err != nil {
			return err
		}
		if len(e.Artifacts) != 1 || e.Artifacts[0].SHA256 == "" {
			return fmt.Errorf("the file is listed as %+v", e.Artifacts)
		}
		digests = append(digests, e.Artifacts[0].SHA256)
	}
	_, size, err := t.stored(digests)
	if err != nil {
		return err
	}
	if newest, _, err := t.stored(digests[4:]); err != nil || newest != 1 {
		return fmt.Errorf("the newest version is not kept (%w)", err)
	}
	if size > artifactBudget {
		return fmt.Errorf("versions of %d bytes are kept, the limit is %d", size, artifactBudget)
	}
	return t.keepsArtifacts()
}

// judgeManyArtifacts makes more files than may be kept. Those that are not kept must be listed as such.
func judgeManyArtifacts(t *Trial) error {
	e, err := t.Run(`
for n in range(5):
    with open(f"/workspace/{n}", "wb") as f: f.write(os.urandom(3 << 20))`)
	if err != nil {
		return err
	}
	files, err := t.artifacts(e.ID)
	if err != nil {
		return err
	}
	var digests []string
	for _, f := range files {
		if f.SHA256 != "" {
			digests = append(digests, f.SHA256)
		} else if !f.Omitted {
			return fmt.Errorf("%s is listed without a digest and without a word", f.Path)
		}
	}
	kept, size, err := t.stored(digests)
	if err != nil {
		return err
	}
	if len(files) != 5 || len(digests) != 2 || kept != 2 || size > artifactBudget {
		return fmt.Errorf("%d of 5 files are listed, %d of them with a digest, and %d with %d bytes are kept; the limit is %d",
			len(files), len(digests), kept, size, artifactBudget)
	}
	return t.keepsArtifacts()
}

// shows returns a judge of a cell that displays, updates or clears more than it may: the log must stay within the
// budgets, with one notice.
func shows(code string) func(*Trial) error {
	return func(t *Trial) error {
		_, err := t.shows(code)
		return err
	}
}

func (t *Trial) shows(code string) ([]logged, error) {
	e, err := t.Run(code)
	if err != nil {
		return nil, err
	}
	if e.Status != api.StatusOK {
		return nil, fmt.Errorf("the cell ended %s %s: %.300s", e.Status, e.Reason, e.Text)
	}
	events, err := t.log()
	if err != nil {
		return nil, err
	}
	var shown []logged
	size, notices := 0, 0
	for _, event := range events {
		switch {
		case event.ExecutionID != e.ID:
		case slices.Contains([]string{"display_data", "update_display_data", "clear_output"}, event.Type):
			shown, size = append(shown, event), size+event.size
		case event.Type == "stream" && strings.Contains(event.Text, "limits.display_bytes"):
			notices++
		}
	}
	if most := 3 * (displayBudget + textBudget); size > most { // small events are larger on the wire than they count
		return nil, fmt.Errorf("the log holds %d bytes of what was shown, the limits are %d and %d of text", size, displayBudget, textBudget)
	}
	if notices != 1 {
		return nil, fmt.Errorf("there are %d notices", notices)
	}
	return shown, nil
}

// judgeDisplays shows more than it may of something that describes itself in a few words: the words must be kept.
func judgeDisplays(t *Trial) error {
	shown, err := t.shows(`
for n in range(40): display({"text/plain": f"number {n}", "text/html": "x" * 20_000}, raw=True)`)
	if err != nil {
		return err
	}
	whole := 0
	for n, event := range shown {
		if string(event.Data["text/plain"]) != fmt.Sprintf(`"number %d"`, n) {
			return fmt.Errorf("display %d says %.100s", n, event.Data["text/plain"])
		}
		if len(event.Data["text/html"]) > 0 {
			whole++
		}
	}
	if len(shown) != 40 || whole < 5 || whole > 13 {
		return fmt.Errorf("%d of 40 displays are in the log, %d of them whole", len(shown), whole)
	}
	return nil
}

// judgeFullAnswers shows more than an answer may hold, within the budgets.
func judgeFullAnswers(t *Trial) error {
	var first string
	for _, count := range []int{9, 3} {
		e, err := t.Run(fmt.Sprintf(`for n in range(%d): display({"text/html": "x" * 3_000_000}, raw=True)`, count))
		if err != nil {
			return err
		}
		if first == "" {
			first = e.ID
		}
	}
	e, size, err := decoded[map[string]any](t, "/executions/"+first)
	if err != nil {
		return err
	}
	if size >= answerBytes || e["outputs_omitted"] != true {
		return fmt.Errorf("the answer for one execution has %d bytes, and outputs_omitted is %v", size, e["outputs_omitted"])
	}
	_, size, err = decoded[map[string]any](t, "/executions?limit=100")
	if err == nil && size >= answerBytes {
		err = fmt.Errorf("a page of executions has %d bytes", size)
	}
	return err
}

// judgeLongPaths makes more files than one execution lists, with paths as long as a system call accepts.
func judgeLongPaths(t *Trial) error {
	e, err := t.Run(`
folder = "/workspace/" + "/".join(["d" * 250] * 15)
os.makedirs(folder)
at = os.open(folder, os.O_DIRECTORY)
for n in range(2000): os.close(os.open(str(n), os.O_CREAT | os.O_WRONLY, dir_fd=at))`)
	if err != nil {
		return err
	}
	if e.Status != api.StatusOK {
		return fmt.Errorf("the cell ended %s %s: %.300s", e.Status, e.Reason, e.Text)
	}
	if len(e.Artifacts) > listedFiles {
		return fmt.Errorf("%d files are listed, the limit is %d", len(e.Artifacts), listedFiles)
	}
	events, err := t.log()
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(events, func(event logged) bool {
		return event.ExecutionID == e.ID && event.Type == "stream" && event.Name == "stderr"
	}) {
		return fmt.Errorf("%d of 2000 files are listed without a word about the others", len(e.Artifacts))
	}
	return nil
}

// late returns a judge of code that a thread runs after its cell has ended.
func late(code string) func(*Trial) error {
	indented := strings.ReplaceAll(strings.TrimSpace(code), "\n", "\n    ")
	return func(t *Trial) error {
		e, err := t.Run("go = threading.Event()\ndef late():\n    go.wait()\n    " + indented + `
thread = threading.Thread(target=late)
thread.start()`)
		if err != nil {
			return err
		}
		if _, err := t.Run("go.set(); thread.join()"); err != nil {
			return err
		}
		events, err := t.log()
		if err != nil {
			return err
		}
		over, size := false, 0
		for _, event := range events {
			if event.ExecutionID != e.ID {
				continue
			}
			if over {
				size += event.size
			}
			over = over || event.Type == "execution_finished"
		}
		if most := 4 * textBudget; size > most { // small events are larger on the wire than they count
			return fmt.Errorf("the log holds %d bytes that came late, the limit is %d", size, textBudget)
		}
		return nil
	}
}

// judgeLog prints more than the log may hold, with each cell within its limit. The oldest outputs have to be dropped,
// and the newest kept.
func judgeLog(t *Trial) error {
	var cells []api.Execution
	for range 6 {
		e, err := t.Run(`print("x" * 1_000_000)`)
		if err != nil {
			return err
		}
		cells = append(cells, e)
	}
	n, err := t.usage("log_bytes")
	for tries := 0; n > logBudget && tries < 200 && err == nil; tries++ { // the log may be trimmed a little later
		if err = t.Works(); err == nil {
			n, err = t.usage("log_bytes")
		}
	}
	if err == nil && n > logBudget {
		err = fmt.Errorf("the log has %d bytes, the limit is %d", n, logBudget)
	}
	if err != nil {
		return err
	}
	session, _, err := decoded[struct {
		FirstSeq int64 `json:"first_seq"`
	}](t, "")
	if err != nil {
		return err
	}
	oldest, _, err := decoded[map[string]any](t, "/executions/"+cells[0].ID)
	if err != nil {
		return err
	}
	newest, size, err := decoded[map[string]any](t, "/executions/"+cells[5].ID)
	if err != nil {
		return err
	}
	if session.FirstSeq <= 1 || oldest["outputs_omitted"] != true || newest["outputs_omitted"] == true || size < 1_000_000 {
		return fmt.Errorf("the log begins at %d; the oldest execution has outputs_omitted %v, and the newest %v in %d bytes",
			session.FirstSeq, oldest["outputs_omitted"], newest["outputs_omitted"], size)
	}
	return nil
}
