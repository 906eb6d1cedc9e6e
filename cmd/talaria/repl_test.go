package main

import "testing"

// A line is indented though the kernel does not answer in time, as on a busy machine.
func TestALineIsIndentedWithoutTheKernel(t *testing.T) {
	for line, want := range map[string]string{
		"for i in range(2):":  "    ",
		"    if i:  ":         "        ",
		"    print('row', i)": "    ",
		"x = 1":               "",
		"":                    "",
		"\tif x:":             "\t    ",
	} {
		if got := indentAfter(line); got != want {
			t.Errorf("after %q comes %q, want %q", line, got, want)
		}
	}
}
