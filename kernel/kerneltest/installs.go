package kerneltest

import (
	"context"
	"io"
	"strings"
	"testing"

	"talaria/kernel"
)

// hosted is a kernel of a host, whose records are read in their order.
type hosted struct {
	*testing.T
	host *kernel.Host
	key  kernel.Key
	seen []kernel.Record
	used int
}

// until reads until a record satisfies last, and returns it with what was printed before it.
func (h *hosted) until(what string, last func(kernel.Record) bool) (kernel.Record, string) {
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
		if s, ok := rec.Body.(kernel.Stream); ok {
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
	if err := kernel.Tell(h.Context(), h.host, h.key, kernel.Execution{ID: id, Code: code, Count: 1}); err != nil {
		h.Fatal(err)
	}
}

func (h *hosted) asked(execution string) kernel.Asked {
	h.Helper()
	rec, _ := h.until("ask", func(r kernel.Record) bool { _, ok := r.Body.(kernel.Asked); return ok })
	if rec.ExecutionID != execution {
		h.Errorf("execution %q asked, not %q", rec.ExecutionID, execution)
	}
	return rec.Body.(kernel.Asked)
}

func (h *hosted) finished() (kernel.Finished, string) {
	h.Helper()
	rec, text := h.until("end", func(r kernel.Record) bool { _, ok := r.Body.(kernel.Finished); return ok })
	return rec.Body.(kernel.Finished), text
}

func (h *hosted) answer(asked kernel.Asked, result kernel.InstallResult) {
	h.Helper()
	if err := kernel.Tell(h.Context(), h.host, h.key, kernel.InstallOutput{RequestID: asked.ID, Text: "Collecting newcomer\n"}); err != nil {
		h.Error(err)
	}
	if err := kernel.Tell(h.Context(), h.host, h.key, kernel.AnswerInstall{RequestID: asked.ID, Result: result}); err != nil {
		h.Error(err)
	}
}

// asksForTwoThingsAtOnce has a thread of a cell install while the cell asks for input.
func (h *hosted) asksForTwoThingsAtOnce(id string) {
	h.Helper()
	code := "import threading\nt = threading.Thread(target=get_ipython().run_line_magic, args=('pip', 'install newcomer'))\n" +
		"t.start(); print(input('? ')); t.join()"
	if err := kernel.Tell(h.Context(), h.host, h.key, kernel.Execution{ID: id, Code: code, Count: 1, AllowStdin: true}); err != nil {
		h.Fatal(err)
	}
	asked := map[kernel.AskKind]kernel.Asked{}
	for range 2 {
		a := h.asked(id)
		asked[a.Body.Kind()] = a
	}
	if a, err := h.host.Attach(h.Context(), h.key); err != nil || len(a.Asks) != 2 {
		h.Errorf("open are %+v, %v", a.Asks, err)
	}
	h.answer(asked[kernel.AskInstall], kernel.InstallResult{})
	answer := kernel.AnswerInput{RequestID: asked[kernel.AskInput].ID, Value: "answered"}
	if err := kernel.Tell(h.Context(), h.host, h.key, answer); err != nil {
		h.Error(err)
	}
	if end, text := h.finished(); end.Status != kernel.OK || !strings.Contains(text, "answered\n") || !strings.Contains(text, "Collecting newcomer\n") {
		h.Errorf("a cell that asks for two things at once: %+v, %q", end, text)
	}
}

// installsThroughItsHost has a kernel ask its host for packages in all ways that there are.
func installsThroughItsHost(t *testing.T, r *rig) {
	spec := r.newSpec(t)
	host := kernel.NewHost(kernel.HostConfig{Backend: r.backend, Pool: -1})
	h := &hosted{T: t, host: host, key: kernel.Key{Session: "s", Generation: 1}}
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
	h.answer(asked, kernel.InstallResult{Packages: []kernel.Package{{Name: "newcomer", Version: "1"}}})
	if end, text := h.finished(); end.Status != kernel.OK || text != "Collecting newcomer\n1\n" {
		t.Errorf("a cell that installs: %+v, %q", end, text)
	}

	h.execute("e2", "!pip install newcomer\nprint(_exit_code)")
	h.answer(h.asked("e2"), kernel.InstallResult{Error: "there is none"})
	end, text := h.finished() // of its two streams one may come before the other
	said := strings.Replace(text, "ERROR: there is none\n", "", 1)
	if end.Status != kernel.OK || said == text || said != "Collecting newcomer\n1\n" {
		t.Errorf("a command that fails: %+v, %q", end, text)
	}

	for id, code := range map[string]string{
		"e3": "%pip install newcomer",
		"e4": "!pip install newcomer\nraise ValueError(_exit_code)",
		"e5": "import subprocess\nsubprocess.run(['pip', 'install', 'newcomer'])",
	} {
		h.execute(id, code)
		asked := h.asked(id)
		if err := kernel.Tell(h.Context(), h.host, h.key, kernel.Interrupt{ExecutionID: id}); err != nil {
			t.Error(err)
		}
		rec, _ := h.until("close", func(r kernel.Record) bool { _, ok := r.Body.(kernel.AskClosed); return ok })
		if got := rec.Body; got != (kernel.AskClosed{Kind: kernel.AskInstall, ID: asked.ID, How: "interrupted"}) {
			t.Errorf("%s: %+v", code, got)
		}
		if end, text := h.finished(); end.Status == kernel.OK {
			t.Errorf("%s goes on: %+v, %q", code, end, text)
		}
	}

	h.asksForTwoThingsAtOnce("e7")

	terminal, err := kernel.Ask(ctx, h.host, h.key, kernel.OpenTerminal{Size: kernel.TerminalSize{Rows: 24, Cols: 80}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := kernel.Ask(ctx, h.host, h.key, kernel.WriteTerminal{ID: terminal, Data: []byte("pip install newcomer && exit 7\n")}); err != nil {
		t.Fatal(err)
	}
	h.answer(h.asked(""), kernel.InstallResult{})
	var shown strings.Builder
	for after := int64(0); ; {
		out, err := kernel.Ask(ctx, h.host, h.key, kernel.ReadTerminal{ID: terminal, After: after})
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
	if end, text := h.finished(); end.Status != kernel.OK || text != "1\n" {
		t.Errorf("the kernel after all that: %+v, %q", end, text)
	}
}
