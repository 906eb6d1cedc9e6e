package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// pretendCRIU puts a script in the place of criu, or nothing.
func pretendCRIU(t *testing.T, script string) {
	t.Helper()
	folder := t.TempDir()
	t.Setenv("PATH", folder)
	if script == "" {
		return
	}
	if err := os.WriteFile(filepath.Join(folder, "criu"), []byte("#!/bin/sh\n"+script), 0o755); err != nil {
		t.Fatal(err)
	}
}

func TestWithoutCRIUItsRowSaysThatItWasSkipped(t *testing.T) {
	for script, want := range map[string]string{
		"": "skipped: criu is not on PATH",
		"echo Looks bad; echo You need root; exit 1": "skipped: criu check: exit status 1: You need root",
	} {
		pretendCRIU(t, script)
		row := &trial{n: 1, metrics: 2}
		if err := dumping(t.Context(), row); err != nil {
			t.Error(err)
		}
		if len(row.values) != 0 || row.notes[0] != want || row.notes[1] != want {
			t.Errorf("%v, %v, want %s", row.values, row.notes, want)
		}
	}
}

func TestCRIUDumpsAProcessThatLives(t *testing.T) {
	pretendCRIU(t, `[ "$1" = check ] && exit
[ -d "$4" ] && kill -0 "$6" && [ ! -e "/proc/$6/fd/1" ] && [ ! -e "/proc/$6/fd/2" ]`)
	row := &trial{n: 2, metrics: 2, quick: true}
	if err := dumping(t.Context(), row); err != nil {
		t.Error(err)
	}
	if len(row.values) != 2 || len(row.values[0]) != 2 || len(row.values[1]) != 2 {
		t.Errorf("the samples are %v", row.values)
	}
	if left := awaitEnd(descendants(os.Getpid()), endTime); len(left) > 0 {
		t.Errorf("%v are left", left)
	}
}

func TestADumpThatFailsIsToldWithWhatCRIUPrinted(t *testing.T) {
	pretendCRIU(t, `[ "$1" = check ] || { echo no ptrace; exit 2; }`)
	err := dumping(t.Context(), &trial{n: 1, metrics: 2, quick: true})
	if err == nil || !strings.Contains(err.Error(), "no ptrace") {
		t.Errorf("the error is %v", err)
	}
}
