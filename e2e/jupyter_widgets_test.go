package e2e

import (
	"os/exec"
	"testing"
)

// TestJupyterWidgetsTalkToTheirFrontEnd runs the front end's side with JupyterLab's own library, and the kernel's side with
// ipywidgets where it is installed.
func TestJupyterWidgetsTalkToTheirFrontEnd(t *testing.T) {
	t.Parallel()
	s := start(t, options{args: []string{"--engine", "stdlib"}})
	mode := ""
	if exec.Command("/usr/bin/python3", "-c", "import ipywidgets").Run() == nil {
		mode = "ipywidgets"
	}
	got := labClient(t, "widgets.mjs", s.URL+"/jupyter", s.Token, mode)
	wantReported(t, got, map[string]string{
		"expressions":  `["40","NameError"]`,
		"buffers out":  `256`,
		"buffers in":   `"1 True\n"`,
		"buffers back": `[[255,254,253,252],[]]`,
		"info":         `["test.buffers"]`,
		"death closes": `true`,
	})
	t.Run("ipywidgets", func(t *testing.T) {
		if mode == "" {
			t.Fatal("ipywidgets is missing, so no slider is moved; make test-setup installs it")
		}
		wantReported(t, got, map[string]string{
			"slider": `""`, "value": `3`, "move": `"moved to 7\n"`, "in python": `"7\n"`, "back": `true`,
			"interact": `"x is 2\n"`, "interact moves": `"x is 5\n"`,
		})
	})
}
