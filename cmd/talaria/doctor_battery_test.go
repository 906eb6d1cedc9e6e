package main

import (
	"strings"
	"testing"
)

// What the server of a failed battery said is bounded, and safe to print.
func TestComplaintsAreBoundedAndSafeToPrint(t *testing.T) {
	var c complaints
	long := strings.Repeat("x", maxComplaints)
	for _, piece := range []string{"start a kernel\n\x1b]52;c;aGk=\a", long, long} {
		if n, err := c.Write([]byte(piece)); n != len(piece) || err != nil {
			t.Fatalf("%d of %d bytes were taken: %v", n, len(piece), err)
		}
	}
	said := c.String()
	if !strings.HasPrefix(said, `start a kernel`+"\n"+`\x1b]52;c;aGk=\x07xxx`) {
		t.Errorf("it begins %.60q", said)
	}
	if len(c.text) != maxComplaints {
		t.Errorf("%d bytes are kept, want %d", len(c.text), maxComplaints)
	}
}
