package kernelwire

import (
	"bytes"
	"testing"
)

func TestKernelIDsLookLikeUUIDsAndLeadBack(t *testing.T) {
	for session, want := range map[string]string{
		"01a1fdae-73ff-7a9f-9b0f-2ad2b3cd7d11": "01a1fdae-73ff-7a9f-9b0f-2ad2b3cd7d11",
		"chat:7":                               "session-id-in-hex-636861743a37",
		"session-id-in-hex-6161":               "session-id-in-hex-73657373696f6e2d69642d696e2d6865782d36313631",
	} {
		kernel := KernelID(session)
		if kernel != want || !uuidLike.MatchString(kernel) {
			t.Errorf("the kernel of %q is %q, want %q", session, kernel, want)
		}
		if back, ok := SessionID(kernel); !ok || back != session {
			t.Errorf("%q leads to %q (%t)", kernel, back, ok)
		}
	}
	for _, kernel := range []string{"", "../x", "session-id-in-hex-zz", "session-id-in-hex-2e2e"} {
		if id, ok := SessionID(kernel); ok {
			t.Errorf("%q leads to %q", kernel, id)
		}
	}
}

func TestMessageIDsTellWhereTheyAreInALog(t *testing.T) {
	id := MessageID("01a1fdae-73ff-7a9f-9b0f-2ad2b3cd7d11", Position{Seq: 12, Index: 3})
	if logID, at, ok := ParseMessageID(id); !ok || logID != "01a1fdae-73ff-7a9f-9b0f-2ad2b3cd7d11" || at != (Position{Seq: 12, Index: 3}) {
		t.Errorf("%q leads to %q, %v (%t)", id, logID, at, ok)
	}
	for _, id := range []string{"", "01a1fdae-73ff-7a9f-9b0f-2ad2b3cd7d11", "log.1", "log.1.x", "log.1.2.3", "log.+1.2", "log. 1.2", "log.01.2"} {
		if logID, at, ok := ParseMessageID(id); ok {
			t.Errorf("%q leads to %q, %v", id, logID, at)
		}
	}
	for _, c := range []struct {
		one, other Position
		after      bool
	}{
		{Position{1, 0}, Position{}, true},
		{Position{1, 0}, Position{1, 0}, false},
		{Position{1, 1}, Position{1, 0}, true},
		{Position{2, 0}, Position{1, 9}, true},
		{Position{1, 9}, Position{2, 0}, false},
	} {
		if after := c.one.After(c.other); after != c.after {
			t.Errorf("%v is after %v: %t", c.one, c.other, after)
		}
	}
}

func FuzzSplit(f *testing.F) {
	f.Add(Join([][]byte{[]byte("shell"), []byte("{}"), []byte("{}"), []byte("{}"), []byte("{}"), []byte("buffer")}))
	f.Add([]byte{1, 0, 0, 0, 0, 0, 0, 0})
	f.Fuzz(func(t *testing.T, frame []byte) {
		parts, err := Split(frame, 1<<20)
		if err != nil {
			return
		}
		again, err := Split(Join(parts), 1<<20)
		if err != nil || len(again) != len(parts) || !bytes.Equal(bytes.Join(again, []byte{0}), bytes.Join(parts, []byte{0})) {
			t.Errorf("%q becomes %q, %v", parts, again, err)
		}
	})
}
