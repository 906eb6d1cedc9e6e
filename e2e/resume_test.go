package e2e

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"talaria/api"
	"talaria/client"
)

// slowLines prints numbered lines with small pauses, until it is told to stop.
const slowLines = `import os, time
n = 0
while not os.path.exists("enough"):
    print(f"line {n} of the slow cell")
    n += 1
    if n % 20 == 0:
        time.sleep(0.005)
os.remove("enough")`

// enough ends a cell of slowLines, or one like it.
func enough(t *testing.T, c *client.Client, session string) {
	t.Helper()
	if _, _, err := c.PutFile(within(t), session, "enough", strings.NewReader("1")); err != nil {
		t.Error(err)
	}
}

// wantSlowLines checks that a text is the output of slowLines.
func wantSlowLines(t *testing.T, who, text string) {
	t.Helper()
	wantBegun(t, who, text)
	if !strings.HasSuffix(text, "\n") {
		t.Errorf("%s got half a line at the end", who)
	}
}

// wantBegun checks that a text is the beginning of slowLines' output, where the cell may have ended in the middle of a
// line.
func wantBegun(t *testing.T, who, text string) {
	t.Helper()
	n := strings.Count(text, "\n")
	var all strings.Builder
	for i := range n + 1 {
		fmt.Fprintf(&all, "line %d of the slow cell\n", i)
	}
	if !strings.HasPrefix(all.String(), text) || text == "" {
		t.Errorf("%s got other text than %d lines, each once", who, n)
	}
}

// queue starts a cell without waiting for it.
func (s *Server) queue(t *testing.T, session, code string) string {
	t.Helper()
	e, err := s.Client().ExecuteWait(within(t), session, api.ExecutionRequest{Code: &code}, 0)
	if err != nil {
		t.Fatal(err)
	}
	return e.ID
}

// reader reads events after a position until one fits or it has enough for this connection.
type reader func(ctx context.Context, session string, after int64, fits func(line) bool) error

func (s *Server) readers() map[string]reader {
	events := func(format string) reader {
		return func(ctx context.Context, session string, after int64, fits func(line) bool) error {
			return s.stream(ctx, fmt.Sprintf("/v1/sessions/%s/events?after=%d", session, after), format,
				func(l line) bool { return !fits(l) })
		}
	}
	return map[string]reader{"SSE": events(sse), "NDJSON": events(ndjson),
		"WebSocket": func(ctx context.Context, session string, after int64, fits func(line) bool) error {
			k, _, err := s.dial(ctx, session, fmt.Sprint("after=", after))
			if err != nil {
				return err
			}
			defer k.cut()
			_, err = k.gather(fits)
			return err
		}}
}

func TestAClientThatIsCutOffTenTimesGetsEveryLineOnce(t *testing.T) {
	t.Parallel()
	s := start(t, options{})
	id := session(t, s.Client(), api.SessionRequest{})
	run(t, s.Client(), id, "pass")
	cell := s.queue(t, id, slowLines)
	const cuts, perConnection = 10, 5
	got := map[string][]line{}
	var mu sync.Mutex // guards got
	var cutting, all sync.WaitGroup
	for name, read := range s.readers() {
		cutting.Add(1)
		all.Go(func() {
			var list []line
			defer func() {
				mu.Lock()
				defer mu.Unlock()
				got[name] = list
			}()
			connect := func(enough func() bool) {
				after := int64(0)
				if len(list) > 0 {
					after = list[len(list)-1].Seq
				}
				err := read(t.Context(), id, after, func(l line) bool {
					list = append(list, l)
					return enough() || ends(cell)(l)
				})
				if err != nil {
					t.Errorf("%s, after %d events: %v", name, len(list), err)
				}
			}
			for i := range cuts {
				connect(func() bool { return len(list) == (i+1)*perConnection })
			}
			cutting.Done()
			connect(func() bool { return false })
		})
	}
	cutting.Wait()
	enough(t, s.Client(), id)
	all.Wait()
	log := s.log(t, id)
	for name, list := range got {
		sameLog(t, name, list, log)
		if !ends(cell)(list[len(list)-1]) {
			t.Errorf("%s did not get the end", name)
		}
		wantSlowLines(t, name, rawText(t, list))
	}
}

// rawText returns the text of stream events.
func rawText(t *testing.T, list []line) string {
	t.Helper()
	var all strings.Builder
	for _, l := range list {
		if l.Type == "stream" {
			all.WriteString(decode[struct{ Text string }](t, string(l.raw)).Text)
		}
	}
	return all.String()
}

func TestThreeClientsSeeTheSameBytes(t *testing.T) {
	t.Parallel()
	s := start(t, options{})
	id := session(t, s.Client(), api.SessionRequest{})
	sockets := []*rawSocket{s.attach(t, id, "after=0"), s.attach(t, id, "after=0"), s.attach(t, id, "after=0")}
	cell := s.queue(t, id, slowLines+"\nimport sys\nprint('Ünïcode \\u2028 <&>', file=sys.stderr)\n[1, 2]")
	enough(t, s.Client(), id)
	got := make([][]line, len(sockets))
	var all sync.WaitGroup
	for i, k := range sockets {
		all.Go(func() {
			var err error
			if got[i], err = k.gather(ends(cell)); err != nil {
				t.Errorf("client %d: %v", i, err)
			}
		})
	}
	all.Wait()
	log := s.log(t, id)
	for i, list := range got {
		sameLog(t, fmt.Sprint("client ", i), list, log)
		if len(list) == 0 || list[0].Seq != 1 {
			t.Errorf("client %d did not get the start of the log: %v", i, seqs(list))
		}
	}
}

func TestAttachingWhileACellPrintsAtFullSpeedLeavesNoGap(t *testing.T) {
	t.Parallel()
	s := start(t, options{})
	id := session(t, s.Client(), api.SessionRequest{Limits: &api.LimitsRequest{OutputBytes: new(int64(60 << 20))}})
	run(t, s.Client(), id, "pass")
	cell := s.queue(t, id, `import os
n = 0
while not os.path.exists("enough"):
    print("full speed", n)
    n += 1`)
	const rounds, together = 4, 6
	var got [][]line
	for round := range rounds {
		if round == rounds-1 {
			enough(t, s.Client(), id)
		}
		var all sync.WaitGroup
		lists := make([][]line, together)
		for i := range together {
			all.Go(func() {
				reader := []string{"WebSocket", "SSE", "NDJSON"}[i%3]
				last := round == rounds-1
				err := s.readers()[reader](t.Context(), id, 0, func(l line) bool {
					lists[i] = append(lists[i], l)
					return ends(cell)(l) || !last && len(lists[i]) == 40*(round+1)
				})
				if err != nil {
					t.Errorf("%s: %v", reader, err)
				}
			})
		}
		all.Wait()
		got = append(got, lists...)
	}
	log := s.log(t, id)
	for i, list := range got {
		sameLog(t, fmt.Sprintf("reader %d of round %d", i%together, i/together), list, log)
		if len(list) > 0 && list[0].Seq != 1 {
			t.Errorf("reader %d starts at %d", i, list[0].Seq)
		}
	}
}
