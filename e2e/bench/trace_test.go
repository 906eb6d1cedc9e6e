package main

import (
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestAStepBeginsWhereItsProcessWasOrWhereItsMessageCameFrom(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"serve-7.steps": "90 before\n110 cell received\n150 cell queued\n300 after\n",
		"host-8.steps":  "130 warmed up\n170 cell received\n190 cell executed\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	steps, err := readSteps(dir)
	if err != nil {
		t.Fatal(err)
	}
	p := path{{100, "client", "cell sent"}, {200, "client", "end received"}}.with(steps)
	var got []string
	for i, s := range p {
		got = append(got, strings.Join([]string{s.process, s.name}, " "))
		switch s.process + " " + s.name {
		case "server cell received":
			if p.began(i) != 100 {
				t.Errorf("the server's first step begins at %d", p.began(i))
			}
		case "host cell received":
			if p.began(i) != 150 {
				t.Errorf("the host received what was sent at %d", p.began(i))
			}
		case "host cell executed":
			if p.began(i) != 170 {
				t.Errorf("the execution begins at %d", p.began(i))
			}
		}
	}
	want := "client cell sent, server cell received, host warmed up, server cell queued, host cell received, host cell executed, client end received"
	if strings.Join(got, ", ") != want {
		t.Errorf("the path is %v", got)
	}
	var table strings.Builder
	printPath(&table, p)
	if n := strings.Count(table.String(), "\n"); n != len(p)+1 {
		t.Errorf("the table has %d lines:\n%s", n, table.String())
	}
	picture := xml.NewDecoder(strings.NewReader(drawPath("a cell", p)))
	bars := 0
	for {
		token, err := picture.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if e, ok := token.(xml.StartElement); ok && e.Name.Local == "rect" {
			bars++
		}
	}
	if bars != len(p) {
		t.Errorf("the picture has %d bars for %d steps", bars, len(p))
	}
}
