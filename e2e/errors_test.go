package e2e

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"talaria/api"
)

// TestAnErrorSaysWhoseItsFramesAreAndWhatToDo looks at what clients fold and what models read: in the event and in the
// execution, but not in the outputs, which notebooks take unchanged.
func TestAnErrorSaysWhoseItsFramesAreAndWhatToDo(t *testing.T) {
	t.Parallel()
	everyIdentity(t, func(t *testing.T, who identity) {
		t.Parallel()
		c := start(t, options{as: who}).Client()
		id := session(t, c, api.SessionRequest{})
		runOK(t, c, id, "open('helper.py', 'w').write('import json\\ndef load(s):\\n    return json.loads(s)\\n')")
		e := run(t, c, id, "import helper\nhelper.load('{')")
		if e.Error == nil || e.Error.Ename != "JSONDecodeError" {
			t.Fatalf("the execution's error is %+v", e.Error)
		}
		var whose []bool
		for _, f := range e.Error.Frames {
			whose = append(whose, f.User)
			lines := e.Error.Traceback[f.TracebackStart:f.TracebackEnd]
			if !strings.Contains(lines[0], f.File) || !strings.Contains(lines[0], f.Function) {
				t.Errorf("the frame %+v has the lines %q", f, lines)
			}
		}
		if len(whose) < 4 || !slices.Equal(whose[:2], []bool{true, true}) || slices.Contains(whose[2:], true) {
			t.Errorf("the frames are the user's: %v", whose)
		}
		if got := e.Error.Frames[0].Cell; got != e.ID {
			t.Errorf("the first frame is of cell %q, want %q", got, e.ID)
		}
		output, err := json.Marshal(e.Outputs[len(e.Outputs)-1])
		if err != nil || strings.Contains(string(output), "frames") || strings.Contains(string(output), "hint") {
			t.Errorf("an output has more than nbformat: %s, %v", output, err)
		}
	})
}

func TestHintsKnowTheSandbox(t *testing.T) {
	t.Parallel()
	everyIdentity(t, func(t *testing.T, who identity) {
		t.Parallel()
		c := start(t, options{as: who}).Client()
		id := session(t, c, api.SessionRequest{})
		runOK(t, c, id, "open('sales_2024.csv', 'w').close()")
		for code, want := range map[string]string{
			"import urllib.request\nurllib.request.urlopen('http://example.invalid')": "this session has no network",
			"import socket\nsocket.create_connection(('192.0.2.1', 80), 3)":           "this session has no network",
			"open('/usr/lib/x', 'w')":                      "files can be written in the workspace (/workspace)",
			"import pandas\npandas.read_csv('sales.csv')":  "the workspace has 'sales_2024.csv'",
			"open('/mnt/data/sales.csv')":                  "the workspace has 'sales_2024.csv'",
			"import cv2_of_mine":                           "%pip install cv2-of-mine",
			"import subprocess\nsubprocess.run(['ffmpg'])": "no program 'ffmpg' was found on PATH",
		} {
			e := run(t, c, id, code)
			if e.Error == nil || !strings.Contains(e.Error.Hint, want) || !strings.Contains(e.Text, want) {
				t.Errorf("%q: %+v", code, e.Error)
			}
		}
	})
}
