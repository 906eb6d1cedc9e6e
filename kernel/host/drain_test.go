package host

import (
	"os"
	"testing"
)

func TestADrainEndsThoughItsWriterGoesOn(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _, _ = r.Close(), w.Close() }()
	got := ""
	var pipe *tap
	pipe, err = newTap(r, &marks{}, func(text []byte) {
		if got += string(text); len(got) < 1000 {
			_, _ = w.WriteString("more")
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	_, _ = w.WriteString("first")
	pipe.drain()
	if got != "first" {
		t.Errorf("drained %d bytes %.40q", len(got), got)
	}
}
