package e2e

import (
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"talaria/api"
)

// flood prints 40 MiB in numbered lines of 64 bytes.
const (
	flood = `import sys
for i in range(40 << 4):
    sys.stdout.write("".join(f"{i * 1024 + j:09d}" + "." * 54 + "\n" for j in range(1024)))`
	floodLines = 40 << 14
)

func floodSession(t *testing.T, s *Server) string {
	t.Helper()
	id := session(t, s.Client(), api.SessionRequest{Limits: &api.LimitsRequest{OutputBytes: new(int64(60 << 20))}})
	runOK(t, s.Client(), id, "pass")
	return id
}

// checkFlood checks the text of the flood's stream events.
func checkFlood(t *testing.T, who string, list []line) {
	t.Helper()
	got := rawText(t, list)
	if len(got) != floodLines*64 {
		t.Errorf("%s got %d bytes of text, want %d", who, len(got), floodLines*64)
		return
	}
	dots := strings.Repeat(".", 54) + "\n"
	for i := range floodLines {
		if want := fmt.Sprintf("%09d", i) + dots; got[i*64:(i+1)*64] != want {
			t.Errorf("%s got %q as line %d", who, got[i*64:(i+1)*64], i)
			return
		}
	}
}

func TestAClientThatStopsReadingIsClosedAndResumes(t *testing.T) {
	t.Parallel()
	s := start(t, options{})
	id := floodSession(t, s)
	lazy := s.attach(t, id, "after=0")
	cell := s.queue(t, id, flood)
	// The quick client gets everything while the lazy one takes nothing. On a busy machine it falls behind, too.
	var saw []line
	for after := int64(0); ; after = saw[len(saw)-1].Seq {
		more, err := s.attach(t, id, fmt.Sprint("after=", after)).gather(ends(cell))
		saw = append(saw, more...)
		if err == nil {
			break
		}
		if !wasCutOff(err) || len(more) == 0 {
			t.Fatalf("the quick client was cut off after %d events: %v", len(saw), err)
		}
	}
	log := s.log(t, id)
	sameLog(t, "the quick client", saw, log)
	checkFlood(t, "the quick client", saw)

	got, err := lazy.gather(func(line) bool { return false })
	if closed, ok := err.(*websocket.CloseError); ok && !wasCutOff(closed) {
		t.Errorf("the lazy client was closed with %v", closed)
	}
	if len(got) == 0 || len(got) >= len(saw) {
		t.Fatalf("the lazy client got %d of %d events and then %v", len(got), len(saw), err)
	}
	resumed := s.attach(t, id, fmt.Sprint("after=", got[len(got)-1].Seq))
	rest, err := resumed.gather(ends(cell))
	if err != nil {
		t.Fatal(err)
	}
	got = append(got, rest...)
	sameLog(t, "the lazy client", got, log)
	checkFlood(t, "the lazy client", got)
}

// wasCutOff reports whether a client was told that it lags, or was cut off where it could not be told any more.
func wasCutOff(err error) bool {
	return websocket.IsCloseError(err, websocket.CloseTryAgainLater, websocket.CloseAbnormalClosure)
}

func TestAStreamThatStopsReadingIsClosedToo(t *testing.T) {
	t.Parallel()
	s := start(t, options{})
	id := floodSession(t, s)
	for _, format := range []string{sse, ndjson} {
		info, err := s.Client().Session(within(t), id)
		if err != nil {
			t.Fatal(err)
		}
		res, err := s.open(within(t), call{method: "GET", path: fmt.Sprintf("/v1/sessions/%s/events?after=%d", id, info.LastSeq),
			header: map[string]string{"Accept": format}})
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		e := run(t, s.Client(), id, flood)
		wantEnd(t, e, api.StatusOK, "", api.VariablesKept)
		var got []line
		err = lines(res.Body, func(l line) bool {
			got = append(got, l)
			return !ends(e.ID)(l)
		})
		if err == nil {
			t.Errorf("%s: a client that took nothing meanwhile was not closed", format)
		}
		log := s.log(t, id)
		if len(got) > 0 { // the part that arrived complete before the cut
			sameLog(t, format, got, log)
		}
	}
}

// A client that replays at its own pace is not cut off, however far behind it is.
func TestASlowReplayIsNotCutOff(t *testing.T) {
	t.Parallel()
	s := start(t, options{})
	id := floodSession(t, s)
	e := run(t, s.Client(), id, flood)
	k := s.attach(t, id, "after=0")
	if err := k.NetConn().(*net.TCPConn).SetReadBuffer(256 << 10); err != nil { // less than a segment stalls
		t.Fatal(err)
	}
	var got []line
	pace := time.NewTicker(2 * time.Millisecond) // of 700 events
	defer pace.Stop()
	list, err := k.gather(func(l line) bool {
		<-pace.C
		got = append(got, l)
		return ends(e.ID)(l)
	})
	if err != nil {
		t.Fatalf("cut off after %d events: %v", len(list), err)
	}
	sameLog(t, "the slow client", list, s.log(t, id))
	checkFlood(t, "the slow client", list)
}
