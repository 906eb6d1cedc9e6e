package kerneltest

import (
	"context"
	"io"
	"strings"
	"testing"

	"talaria/kernel/command"
	"talaria/kernel/host"
	"talaria/kernel/record"
)

// hosted is a kernel of a host, whose records are read in order.
type hosted struct {
	*testing.T
	host *host.Host
	key  record.Key
	seen []record.Record
	used int
}

// until reads until a record satisfies last, and returns it with the text printed before it.
func (h *hosted) until(what string, last func(record.Record) bool) (record.Record, string) {
	h.Helper()
	ctx, cancel := context.WithTimeout(h.Context(), patience)
	defer cancel()
	var text strings.Builder
	for ; ; h.used++ {
		if h.used == len(h.seen) {
			batch, err := h.host.Next(ctx, h.key, uint64(h.used))
			if err != nil {
				h.Fatalf("no %s: %v; so far %+v", what, err, h.seen)
			}
			h.seen = append(h.seen, batch...)
		}
		rec := h.seen[h.used]
		if s, ok := rec.Body.(record.Stream); ok {
			text.WriteString(s.Text)
		}
		if last(rec) {
			h.used++
			return rec, text.String()
		}
	}
}

func (h *hosted) execute(id, code string) {
	h.Helper()
	if err := command.Tell(h.Context(), h.host, h.key, command.Execution{ID: id, Code: code, Count: 1}); err != nil {
		h.Fatal(err)
	}
}

func (h *hosted) asked(execution string) record.Asked {
	h.Helper()
	rec, _ := h.until("ask", func(r record.Record) bool { _, ok := r.Body.(record.Asked); return ok })
	if rec.ExecutionID != execution {
		h.Errorf("execution %q asked, not %q", rec.ExecutionID, execution)
	}
	return rec.Body.(record.Asked)
}

func (h *hosted) finished() (record.Finished, string) {
	h.Helper()
	rec, text := h.until("end", func(r record.Record) bool { _, ok := r.Body.(record.Finished); return ok })
	return rec.Body.(record.Finished), text
}

func (h *hosted) answer(asked record.Asked, result command.InstallResult) {
	h.Helper()
	if err := command.Tell(h.Context(), h.host, h.key, command.InstallOutput{RequestID: asked.ID, Text: "Collecting newcomer\n"}); err != nil {
		h.Error(err)
	}
	if err := command.Tell(h.Context(), h.host, h.key, command.AnswerInstall{RequestID: asked.ID, Result: result}); err != nil {
		h.Error(err)
	}
}

// asksForTwoThingsAtOnce makes a thread of a cell install while the cell asks for input.
func (h *hosted) asksForTwoThingsAtOnce(id string) {
	h.Helper()
	code := "import threading\nt = threading.Thread(target=get_ipython().run_line_magic, args=('pip', 'install newcomer'))\n" +
		"t.start(); print(input('? ')); t.join()"
	if err := command.Tell(h.Context(), h.host, h.key, command.Execution{ID: id, Code: code, Count: 1, AllowStdin: true}); err != nil {
		h.Fatal(err)
	}
	asked := map[record.AskKind]record.Asked{}
	for range 2 {
		a := h.asked(id)
		asked[a.Body.Kind()] = a
	}
	if a, err := h.host.Attach(h.Context(), h.key); err != nil || len(a.Asks) != 2 {
		h.Errorf("open are %+v, %v", a.Asks, err)
	}
	h.answer(asked[record.AskInstall], command.InstallResult{})
	answer := command.AnswerInput{RequestID: asked[record.AskInput].ID, Value: "answered"}
	if err := command.Tell(h.Context(), h.host, h.key, answer); err != nil {
		h.Error(err)
	}
	if end, text := h.finished(); end.Status != record.OK || !strings.Contains(text, "answered\n") || !strings.Contains(text, "Collecting newcomer\n") {
		h.Errorf("a cell that asks for two things at once: %+v, %q", end, text)
	}
}

// installsThroughItsHost makes a kernel ask its host for packages in every possible way.
func installsThroughItsHost(t *testing.T, r *rig) {
	spec := r.newSpec(t)
	host := host.NewHost(host.HostConfig{Backend: r.backend, Pool: -1})
	h := &hosted{T: t, host: host, key: record.Key{Session: "s", Generation: 1}}
	defer func() {
		if err := h.host.Close(context.Background()); err != nil {
			t.Error(err)
		}
	}()
	ctx, cancel := context.WithTimeout(h.Context(), patience)
	defer cancel()
	if _, err := h.host.Start(ctx, h.key, r.env, spec); err != nil {
		t.Fatal(err)
	}

	h.execute("e1", "%pip install newcomer\nimport newcomer; print(newcomer.V)")
	asked := h.asked("e1")
	r.addLayer(t, spec, "0001", map[string]string{"newcomer.py": "V = 1\n"})
	h.answer(asked, command.InstallResult{Packages: []command.Package{{Name: "newcomer", Version: "1"}}})
	if end, text := h.finished(); end.Status != record.OK || text != "Collecting newcomer\n1\n" {
		t.Errorf("a cell that installs: %+v, %q", end, text)
	}

	h.execute("e2", "!pip install newcomer\nprint(_exit_code)")
	h.answer(h.asked("e2"), command.InstallResult{Error: "there is none"})
	end, text := h.finished() // either of its two streams may come first
	said := strings.Replace(text, "ERROR: there is none\n", "", 1)
	if end.Status != record.OK || said == text || said != "Collecting newcomer\n1\n" {
		t.Errorf("a command that fails: %+v, %q", end, text)
	}

	for id, code := range map[string]string{
		"e3": "%pip install newcomer",
		"e4": "!pip install newcomer\nraise ValueError(_exit_code)",
		"e5": "import subprocess\nsubprocess.run(['pip', 'install', 'newcomer'])",
	} {
		h.execute(id, code)
		asked := h.asked(id)
		if err := command.Tell(h.Context(), h.host, h.key, command.Interrupt{ExecutionID: id}); err != nil {
			t.Error(err)
		}
		rec, _ := h.until("close", func(r record.Record) bool { _, ok := r.Body.(record.AskClosed); return ok })
		if got := rec.Body; got != (record.AskClosed{Kind: record.AskInstall, ID: asked.ID, How: "interrupted"}) {
			t.Errorf("%s: %+v", code, got)
		}
		if end, text := h.finished(); end.Status == record.OK {
			t.Errorf("%s goes on: %+v, %q", code, end, text)
		}
	}

	h.asksForTwoThingsAtOnce("e7")

	terminal, err := command.Ask(ctx, h.host, h.key, command.OpenTerminal{Size: command.TerminalSize{Rows: 24, Cols: 80}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := command.Ask(ctx, h.host, h.key, command.WriteTerminal{ID: terminal, Data: []byte("pip install newcomer && exit 7\n")}); err != nil {
		t.Fatal(err)
	}
	h.answer(h.asked(""), command.InstallResult{})
	var shown strings.Builder
	for after := int64(0); ; {
		out, err := command.Ask(ctx, h.host, h.key, command.ReadTerminal{ID: terminal, After: after})
		if err != nil && err != io.EOF {
			t.Fatal(err)
		}
		shown.Write(out.Data)
		after = out.Offset + int64(len(out.Data))
		if out.Ended {
			if out.Code != 7 || !strings.Contains(shown.String(), "Collecting newcomer\r\n") {
				t.Errorf("a terminal ended with %d: %q", out.Code, shown.String())
			}
			break
		}
	}
	h.execute("e6", "print(newcomer.V)")
	if end, text := h.finished(); end.Status != record.OK || text != "1\n" {
		t.Errorf("the kernel after all that: %+v, %q", end, text)
	}
}
