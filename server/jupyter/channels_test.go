package jupyter

import (
	"encoding/json"
	"fmt"
	"testing"

	"talaria/api"
	"talaria/session"
)

func client(id string) *channels {
	return &channels{id: id, sess: new(session.Session), cancel: func(error) {}}
}

// confirm is a client that says that it has read what it was sent.
func confirm(c *channels, seq int64) {
	c.kernel.sent(c, seq)
	c.kernel.toAsk(c)
	c.kernel.read(c, seq)
}

func TestKernelsOfTwoOwnersHaveNothingInCommon(t *testing.T) {
	var all kernels
	info := api.Session{ID: "chat:7", LogID: "one", FirstSeq: 1, LastSeq: 5}
	mine, theirs := client("tab"), client("tab")
	mine.kernel, _ = all.enter("me", info, mine)
	info.LogID = "two"
	theirs.kernel, _ = all.enter("you", info, theirs)
	if mine.kernel == theirs.kernel || all.connections("me", "chat:7") != 1 || all.connections("you", "chat:7") != 1 {
		t.Error("sessions of the same id are taken for one kernel")
	}
}

func TestAClientIsTakenUpWhereItStopped(t *testing.T) {
	var all kernels
	info := api.Session{ID: "s", LogID: "l", FirstSeq: 1, LastSeq: 5}
	first := client("tab")
	var after int64
	if first.kernel, after = all.enter("me", info, first); after != 5 {
		t.Errorf("a new client follows from %d", after)
	}
	confirm(first, 8)
	first.kernel.sent(first, 9) // it may be lost on its way
	first.kernel.toAsk(first)
	if first.kernel.read(first, 10) {
		t.Error("a client confirms what it was not asked about")
	}
	second := client("tab")
	info.LastSeq = 10
	if second.kernel, after = all.enter("me", info, second); after != 8 {
		t.Errorf("a client that comes back follows from %d, want 8", after)
	}
	confirm(first, 10) // the older connection moves nothing any more
	if first.kernel.read(first, 9) {
		t.Error("an older connection confirms something")
	}
	first.kernel.leave(first)
	confirm(second, 9)
	second.kernel.leave(second)
	third := client("tab")
	if _, after = all.enter("me", info, third); after != 9 {
		t.Errorf("it follows from %d, want 9", after)
	}
}

func TestAClientIsAskedAFewTimesAtOnceHowFarItHasRead(t *testing.T) {
	var all kernels
	c := client("tab")
	c.kernel, _ = all.enter("me", api.Session{ID: "s", LogID: "l", FirstSeq: 1}, c)
	var asked []int64
	ask := func(sent int64) {
		c.kernel.sent(c, sent)
		for range 2 { // the same is not asked twice
			if seq, ok := c.kernel.toAsk(c); ok {
				asked = append(asked, seq)
			}
		}
	}
	for seq := int64(1); seq <= 2*maxAsked; seq++ {
		ask(seq)
	}
	if len(asked) != maxAsked || asked[0] != 1 {
		t.Fatalf("it was asked about %v", asked)
	}
	c.kernel.read(c, maxAsked)
	if ask(2 * maxAsked); asked[maxAsked] != 2*maxAsked {
		t.Errorf("it was asked about %v", asked)
	}
	c.kernel.read(c, 2*maxAsked)
	if ask(2 * maxAsked); len(asked) != maxAsked+1 {
		t.Errorf("it was asked about %v", asked)
	}
}

func TestWhatClientsThatHaveGoneLeaveBehindIsBounded(t *testing.T) {
	var all kernels
	for i := range 2 * maxLeft {
		c := client("tab")
		c.kernel, _ = all.enter("me", api.Session{ID: fmt.Sprint("s", i), FirstSeq: 1}, c)
		for n := range 100 {
			c.kernel.expect(fmt.Sprint("e", n), parent{client: "tab"})
		}
		c.kernel.leave(c)
	}
	other := client("tab")
	other.kernel, _ = all.enter("you", api.Session{ID: "s", FirstSeq: 1}, other)
	other.kernel.leave(other)
	if n := len(all.by); n > maxLeft || n != len(all.left) || n < maxLeftRequests/100 {
		t.Errorf("%d kernels are kept, in a list of %d", n, len(all.left))
	}
	if all.by[kernelKey{"you", "s"}] == nil {
		t.Error("another owner's kernel was forgotten")
	}
	for i := range 10 * maxEnded {
		id := fmt.Sprint("late", i)
		other.kernel.expect(id, parent{})
		other.kernel.end(id)
		other.kernel.end(id)
	}
	if n := len(other.kernel.parents); n != maxEnded {
		t.Errorf("%d requests that have ended are kept", n)
	}
}

func TestAReplyHasTheNumberOfItsCell(t *testing.T) {
	k := client("tab") // it came back while the cell ran
	list := k.finished(parent{client: "tab"}, api.Execution{Status: api.StatusOK, StartedAt: new(api.Time), ExecutionCount: new(int64(7))})
	var content struct {
		Count int64 `json:"execution_count"`
	}
	if err := json.Unmarshal(list[0].content, &content); err != nil || list[0].header.MsgType != "execute_reply" || content.Count != 7 {
		t.Errorf("the reply is %s (%v), want the number 7", list[0].content, err)
	}
}
