package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestTheSourceOfACellIsUTF8(t *testing.T) {
	file := filepath.Join(t.TempDir(), "cell.py")
	for _, c := range []struct{ bytes, want, wrong string }{
		{"print('é')\n", "print('é')\n", ""},
		{"\xef\xbb\xbfprint(1)\n", "print(1)\n", ""},
		{"a = 1\nb = 'caf\xe9'\n", "", "line 2: not UTF-8"},
	} {
		if err := os.WriteFile(file, []byte(c.bytes), 0o600); err != nil {
			t.Fatal(err)
		}
		cmd := execCommand()
		fromFile, err := new(execution).source(cmd, []string{file})
		cmd.SetIn(strings.NewReader(c.bytes))
		fromInput, errInput := new(execution).source(cmd, []string{"-"})
		for _, got := range []struct {
			text string
			err  error
		}{{fromFile, err}, {fromInput, errInput}} {
			if got.text != c.want || (got.err != nil) != (c.wrong != "") {
				t.Errorf("%q is read as %q, %v", c.bytes, got.text, got.err)
			}
			if c.wrong != "" && (!errors.As(got.err, new(usageError)) || !strings.Contains(got.err.Error(), c.wrong)) {
				t.Errorf("%q: %v", c.bytes, got.err)
			}
		}
	}
}
