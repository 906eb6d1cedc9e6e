package jupyter

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"talaria/api"
)

func openPlaces(t *testing.T, path string) *Places {
	t.Helper()
	p, err := OpenPlaces(path, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close() })
	return p
}

func TestTheNextServerKnowsWhereAClientStopped(t *testing.T) {
	path := filepath.Join(t.TempDir(), "places")
	info := api.Session{ID: "s", LogID: "l", FirstSeq: 1, LastSeq: 6}
	before := kernels{places: openPlaces(t, path)}
	c := client("tab")
	c.kernel, _ = before.enter("me", info, c)
	confirm(c, 7)
	c.kernel.sent(c, 8) // not confirmed

	info.LastSeq = 9
	after := kernels{places: openPlaces(t, path)} // the one before was killed: nothing was closed
	for _, of := range []struct {
		owner, logID, client string
		want                 int64
	}{{"me", "l", "tab", 7}, {"me", "l", "other", 9}, {"you", "l", "tab", 9}, {"me", "new", "tab", 9}} {
		info.LogID = of.logID
		back := client(of.client)
		if _, got := after.enter(of.owner, info, back); got != of.want {
			t.Errorf("%s of %s in log %s follows from %d, want %d", of.client, of.owner, of.logID, got, of.want)
		}
	}
}

func TestThePlaceUsedLongestAgoIsReused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "places")
	p := openPlaces(t, path)
	first, _ := p.find("me", "s", "l", "first")
	p.used[first.slot] = 1
	for i := range maxMarks {
		m, seq := p.find("me", "s", "l", fmt.Sprint(i))
		if seq != -1 {
			t.Fatalf("client %d is known to be at %d", i, seq)
		}
		m.set(int64(i))
	}
	first.set(1_000_000) // its slot is another's
	for i := range maxMarks {
		if _, seq := p.find("me", "s", "l", fmt.Sprint(i)); seq != int64(i) {
			t.Fatalf("client %d is at %d", i, seq)
		}
	}
	if info, err := os.Stat(path); err != nil || info.Size() != maxMarks*slotSize {
		t.Errorf("the file: %v, %v", info, err)
	}
}

func TestAPlaceThatIsMovedIsInUse(t *testing.T) {
	path := filepath.Join(t.TempDir(), "places")
	p := openPlaces(t, path)
	long, _ := p.find("me", "s", "l", "connected for long")
	for i := range maxMarks - 1 {
		p.find("me", "s", "l", fmt.Sprint(i))
	}
	for i := range p.used {
		p.used[i] = int64(1 + i)
	}
	long.set(7)
	p.find("me", "s", "l", "new")
	for name, p := range map[string]*Places{"this server": p, "the next one": openPlaces(t, path)} {
		if _, seq := p.find("me", "s", "l", "connected for long"); seq != 7 {
			t.Errorf("%s has it at %d", name, seq)
		}
	}
	if at := openPlaces(t, path).used[long.slot]; time.Since(time.Unix(at, 0)) > time.Hour {
		t.Errorf("the next server takes it for used at %d", at)
	}
}

func TestAFileOfPlacesMayBeCutOffOrHostile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "places")
	if err := os.WriteFile(path, make([]byte, maxMarks*slotSize+100), 0o600); err != nil {
		t.Fatal(err)
	}
	p := openPlaces(t, path)
	if _, seq := p.find("me", "s", "l", "c"); seq != -1 {
		t.Errorf("an unknown client is at %d", seq)
	}
	if err := os.Truncate(path, slotSize+5); err != nil {
		t.Fatal(err)
	}
	if _, seq := openPlaces(t, path).find("me", "s", "l", "d"); seq != -1 {
		t.Errorf("an unknown client is at %d", seq)
	}
}
