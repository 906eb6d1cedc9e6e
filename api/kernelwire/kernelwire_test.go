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
