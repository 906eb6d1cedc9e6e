package gateway_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"talaria/gateway"
)

func TestG12NamesOfFilesAreSafe(t *testing.T) {
	for given, want := range map[string]string{
		"":                  "file",
		"/":                 "file",
		"..":                "file",
		"../../etc/passwd":  "passwd",
		`C:\temp\a.txt`:     "a.txt",
		".bashrc":           "bashrc",
		"a\x00b\nc.txt":     "a_b_c.txt",
		"invoice\u202Efdp":  "invoice_fdp", // which would be read backwards
		"\xff\xfe.csv":      "_.csv",
		"  spaced name .md": "spaced name .md",
	} {
		if got := gateway.Base(given); got != want {
			t.Errorf("%q becomes %q, want %q", given, got, want)
		}
	}
	long := gateway.Base(strings.Repeat("ä", 500) + ".csv")
	if len(long) > 120 || !strings.HasSuffix(long, ".csv") || !utf8.ValidString(long) {
		t.Errorf("a long name becomes %q", long)
	}
}

func FuzzNamesOfFiles(f *testing.F) {
	for _, seed := range []string{"a.txt", "../x", "\x00", "a/b\\c", strings.Repeat("x", 300) + ".tar.gz"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, given string) {
		name := gateway.Base(given)
		if name == "" || name == "." || name == ".." || len(name) > 120 || strings.ContainsAny(name, "/\\\x00\n") || !utf8.ValidString(name) {
			t.Errorf("%q becomes %q", given, name)
		}
	})
}

func TestG15CommandsAndCode(t *testing.T) {
	for _, c := range []struct {
		text       string
		words      bool
		name, rest string
	}{
		{"/py 1+1", false, "py", "1+1"},
		{"/PY@talaria_bot\nx = 1\nx", false, "py", "x = 1\nx"},
		{"/stop", false, "stop", ""},
		{"/ 2", false, "", "/ 2"},
		{"/path/to", false, "", "/path/to"},
		{"stop", false, "", "stop"},
		{"stop", true, "stop", ""},
		{"get a b.txt", true, "get", "a b.txt"},
		{"files = 1", true, "", "files = 1"},
		{"files = 1\nfiles", true, "", "files = 1\nfiles"},
	} {
		if name, rest := gateway.CommandOf(c.text, c.words); name != c.name || rest != c.rest {
			t.Errorf("%q is %q with %q, want %q with %q", c.text, name, rest, c.name, c.rest)
		}
	}
	for text, want := range map[string]string{
		"look:\n```python\nx = 1\nprint(x)\n```\nand\n```\nprint(2)\n```": "x = 1\nprint(x)\nprint(2)",
		"```1 + 1```":                "1 + 1",
		"```py\nif x:\n    y()\n```": "if x:\n    y()",
	} {
		if got, ok := gateway.FencedCode(text); !ok || got != want {
			t.Errorf("%q has the code %q, want %q", text, got, want)
		}
	}
	if _, ok := gateway.FencedCode("a ``` b"); ok {
		t.Error("one fence is code")
	}
}

func TestG12ACSVIsDescribed(t *testing.T) {
	for _, c := range []struct {
		head string
		more bool
		want string
	}{
		{"a,b\n1,2\n3,4\n", false, "2 rows, 2 columns: a, b."},
		{"a,b\n1,2\n\"3", true, "more than 1 row, 2 columns: a, b."},
		{"", false, ""},
		{"\"open", false, ""},
	} {
		if got := gateway.CSVShape(c.head, c.more); got != c.want {
			t.Errorf("%q is %q, want %q", c.head, got, c.want)
		}
	}
}
