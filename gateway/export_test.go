package gateway

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"

	"talaria/api"
	"talaria/store/chats"
)

// MaxPreviews is how many previews may fail in a row.
const MaxPreviews = maxPreviews

// The pure parts.
var (
	Base       = base
	CommandOf  = command
	FencedCode = fencedCode
	CSVShape   = csvShape
)

// InProcess answers requests without a network, so that simulated time passes.
type InProcess struct{ Handler http.Handler }

// Do is RoundTrip.
func (p InProcess) Do(r *http.Request) (*http.Response, error) { return p.RoundTrip(r) }

// RoundTrip implements [http.RoundTripper].
func (p InProcess) RoundTrip(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	p.Handler.ServeHTTP(w, r)
	if r.Body != nil {
		r.Body.Close()
	}
	return w.Result(), r.Context().Err()
}

// begun returns a bot of which nothing runs yet.
func begun(t *testing.T, c Config) *Bot {
	t.Helper()
	b := New(c)
	b.running, b.fatal = context.WithCancelCause(context.Background())
	var err error
	if b.paces, err = loadPaces(b.running, c.Store, b.tempo); err != nil {
		t.Fatal(err)
	}
	return b
}

// Harness is one chat of a bot that neither receives updates nor follows events: its methods stand for these.
type Harness struct{ chat *chat }

const harnessCell = "cell"

// NewHarness makes one.
func NewHarness(t *testing.T, c Config, at Chat) *Harness {
	t.Helper()
	b := begun(t, c)
	ctx := b.running
	var err error
	if b.account, err = c.Platform.Open(ctx, b.commands()); err != nil {
		t.Fatal(err)
	}
	if err := c.Store.Do(ctx, func(tx *chats.Tx) error { return b.know(tx, b.key(at), at) }); err != nil {
		t.Fatal(err)
	}
	one := b.newChat(b.key(at), at)
	b.work.Go(func() { one.sendAll(ctx) })
	return &Harness{one}
}

// Stop ends the bot.
func (h *Harness) Stop() {
	h.chat.bot.fatal(nil)
	h.chat.bot.work.Wait()
}

// Begin has the cell start.
func (h *Harness) Begin(t *testing.T) {
	t.Helper()
	err := h.chat.do(t.Context(), func(tx *chats.Tx) error {
		return tx.PutCell(h.chat.key, chats.Cell{Execution: harnessCell, Body: encoded(cell{})})
	})
	if err == nil {
		err = h.chat.started(t.Context(), api.Event{ExecutionID: harnessCell, Time: api.Now(), Body: api.ExecutionStarted{}})
	}
	if err != nil {
		t.Fatal(err)
	}
}

// Touch has the cell print something.
func (h *Harness) Touch() { h.chat.touch(harnessCell) }

// Finish has the cell end with a result of these parts.
func (h *Harness) Finish(t *testing.T, parts ...string) {
	t.Helper()
	var all []saying
	for i, part := range parts {
		s := plain("%s", part)
		s.Cell, s.Result = harnessCell, i == 0
		all = append(all, s)
	}
	if err := h.chat.finish(t.Context(), harnessCell, all, nil); err != nil {
		t.Fatal(err)
	}
}
