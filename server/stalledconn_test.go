package server

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gin-gonic/gin"

	"talaria/session/access"
)

// pair returns a connection that belongs to a lobby, and its peer.
func pair(t *testing.T, stall time.Duration) (ours *conn, peer net.Conn) {
	below, peer := net.Pipe()
	l := newLobby(2, stall)
	return &conn{Conn: below, stall: stall, lobby: l}, peer
}

func TestAPeerThatTakesBytesIsNotCutOffAndOneThatTakesNoneIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ours, peer := pair(t, time.Minute)
		answer := bytes.Repeat([]byte("answer "), 3)
		go func() {
			for range answer[:len(answer)-1] {
				time.Sleep(50 * time.Second)
				if _, err := io.ReadFull(peer, make([]byte, 1)); err != nil {
					t.Errorf("a slow peer was cut off: %v", err)
					return
				}
			}
		}()
		begin := time.Now()
		n, err := ours.Write(answer)
		if took := time.Since(begin) - 50*time.Second*time.Duration(len(answer)-1); n != len(answer)-1 ||
			!errors.Is(err, os.ErrDeadlineExceeded) || took < time.Minute || took > 2*time.Minute {
			t.Errorf("%d of %d bytes, %v, and the peer had %v after its last byte", n, len(answer), err, took)
		}
		ours.Close()
		peer.Close()
	})
}

func TestADeadlineOfTheServerHoldsForWritesThatWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ours, peer := pair(t, time.Minute)
		defer peer.Close()
		go func() {
			time.Sleep(3 * time.Second)
			_ = ours.SetWriteDeadline(time.Now().Add(time.Second))
		}()
		begin := time.Now()
		if _, err := ours.Write([]byte("x")); !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(begin) != 4*time.Second {
			t.Errorf("ended with %v after %v", err, time.Since(begin))
		}
		ours.Close()
	})
}

// A part that was read from a file, and not sent when the time was over, is sent again.
func TestASlowDownloadIsWhole(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	want := make([]byte, 100<<10)
	for i := range want {
		want[i] = byte(i % 251)
	}
	if err := os.WriteFile(path, want, 0o600); err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		ours, peer := pair(t, time.Minute)
		file, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		if _, err := file.Seek(7, io.SeekStart); err != nil {
			t.Fatal(err)
		}
		go func() {
			defer ours.Close()
			if n, err := ours.ReadFrom(io.LimitReader(file, int64(len(want)-14))); n != int64(len(want)-14) || err != nil {
				t.Errorf("sent %d bytes, %v", n, err)
			}
		}()
		var got bytes.Buffer
		for piece := make([]byte, 10_000); ; {
			n, err := peer.Read(piece)
			got.Write(piece[:n])
			if err != nil {
				break
			}
			time.Sleep(45 * time.Second)
		}
		if !bytes.Equal(got.Bytes(), want[7:len(want)-7]) {
			t.Errorf("%d bytes came, or other ones", got.Len())
		}
	})
}

func TestLargeBodiesWaitForASlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := newSlots(1)
		alice, bob := newIntake(2, 1, all), newIntake(2, 1, all)
		large, small := bytes.Repeat([]byte("x"), 2<<20), bytes.Repeat([]byte("y"), 20<<10)
		_, release, err := alice.read(t.Context(), bytes.NewReader(large))
		if err != nil {
			t.Fatal(err)
		}
		rest := bytes.NewReader(large)
		read := false
		go func() {
			data, release, err := bob.read(t.Context(), rest)
			read = true
			release()
			if err != nil || !bytes.Equal(data, large) {
				t.Errorf("%d bytes, %v", len(data), err)
			}
		}()
		synctest.Wait()
		if read || rest.Len() < 1<<20-1 {
			t.Errorf("a second large body is read, but for %d bytes", rest.Len())
		}
		if data, release, err := bob.read(t.Context(), bytes.NewReader(small)); err != nil || !bytes.Equal(data, small) {
			t.Errorf("a small body waits: %v", err)
		} else {
			release()
		}
		release()
		synctest.Wait()
		if !read {
			t.Error("the slot was given back, and the body still waits")
		}
		ctx, cancel := context.WithCancel(t.Context())
		_, release, _ = alice.read(ctx, bytes.NewReader(large))
		cancel()
		if _, release, err := bob.read(ctx, bytes.NewReader(large)); !errors.Is(err, context.Canceled) {
			t.Errorf("a wait that was given up ends with %v", err)
		} else {
			release()
		}
		release()
		if len(all)+len(alice.medium)+len(alice.large[0])+len(bob.medium)+len(bob.large[0]) != 0 {
			t.Error("slots are left taken")
		}
	})
}

func TestWrongTokensFromAnAddressHaveToWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGuesses()
		g.saw("a", "mine", true)
		for range guessesAtOnce {
			if g.wait("a", "wrong") > 0 {
				t.Fatal("waits too soon")
			}
			g.saw("a", "wrong", false)
		}
		g.saw("a", "wrong", false)
		if g.wait("a", "wrong") <= 0 || g.wait("a", "new") <= 0 {
			t.Error("an address that tried many does not wait")
		}
		if g.wait("a", "mine") > 0 {
			t.Error("a token that was good before has to wait")
		}
		if g.wait("b", "wrong") > 0 {
			t.Error("another address has to wait")
		}
		time.Sleep(2 * guessEvery)
		if g.wait("a", "new") > 0 {
			t.Error("it waits for ever")
		}
	})
}

// An owner can make any number of links, whose holders must not keep others from sending large bodies.
func TestLargeBodiesOfVisitorsAreFewForEachOwner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := newCallers(100)
		large := bytes.Repeat([]byte("x"), 2<<20)
		enter := func(owner, share string) *call {
			c := &call{Context: &gin.Context{Request: httptest.NewRequest("GET", "/", nil)}, owner: owner}
			if share != "" {
				c.visit = &access.Visit{ShareID: share, Owner: owner}
			}
			if err := all.enter(c); err != nil {
				t.Fatal(err)
			}
			return c
		}
		read := func(c *call) (release func()) {
			t.Helper()
			_, release, err := c.caller.intake.read(c.ctx(), bytes.NewReader(large))
			if err != nil {
				t.Fatal(err)
			}
			return release
		}
		first, second, third := enter("ann", "1"), enter("ann", "2"), enter("ann", "3")
		one, two := read(first), read(second)
		done := make(chan func(), 1)
		go func() { done <- read(third) }()
		synctest.Wait()
		if len(done) > 0 {
			t.Error("a third visitor's body is read")
		}
		ann, bob := enter("ann", ""), enter("bob", "4")
		for _, c := range []*call{ann, bob} { // do not wait
			read(c)()
			c.leave()
		}
		one()
		two()
		(<-done)()
		for _, c := range []*call{first, second, third} {
			c.leave()
		}
		if len(all.large)+len(all.by)+len(all.visitors) != 0 {
			t.Errorf("%d slots are taken, and %d callers and %d owners of visitors kept", len(all.large), len(all.by), len(all.visitors))
		}
	})
}

// A call over MCP keeps its body for as long as it runs, which must not hold up others.
func TestABodyThatIsKeptTakesOnlySlotsOfItsCaller(t *testing.T) {
	all := newSlots(1)
	alice := newIntake(1, 1, all)
	_, release, err := alice.alone().read(t.Context(), bytes.NewReader(make([]byte, 2<<20)))
	if err != nil || len(alice.medium) != 1 || len(alice.large[0]) != 1 || len(all) != 0 {
		t.Errorf("%v: %d medium, %d large, %d of all", err, len(alice.medium), len(alice.large[0]), len(all))
	}
	release()
}
