package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/peterh/liner"
)

// errInterrupted tells that Ctrl-C was pressed at a prompt.
var errInterrupted = errors.New("interrupted")

// lineEditor reads lines from the terminal, with editing, history and completion. Close restores the terminal.
type lineEditor struct {
	state   *liner.State
	history string // the file
}

// completer returns what could stand at a position of the line, counted in characters: each of matches replaces the line
// from start to end.
type completer func(line string, pos int) (matches []string, start, end int)

func newLineEditor(complete completer) *lineEditor {
	e := &lineEditor{state: liner.NewLiner(), history: historyFile()}
	e.state.SetCtrlCAborts(true)
	e.state.SetTabCompletionStyle(liner.TabPrints)
	e.state.SetWordCompleter(func(line string, pos int) (string, []string, string) {
		runes := []rune(line)
		if strings.TrimSpace(string(runes[:pos])) == "" {
			return string(runes[:pos]), []string{"    "}, string(runes[pos:]) // it indents
		}
		matches, start, end := complete(line, pos)
		if start < 0 || start > end || end > len(runes) {
			return "", nil, ""
		}
		return string(runes[:start]), matches, string(runes[end:])
	})
	if file, err := os.Open(e.history); err == nil {
		_, _ = e.state.ReadHistory(file) // a history that cannot be read does not prevent a prompt
		file.Close()
	}
	return e
}

// historyFile is where the lines of earlier runs are kept, for this user only.
func historyFile() string {
	dir := os.Getenv("XDG_STATE_HOME")
	if dir == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			return ""
		}
		dir = filepath.Join(home, ".local", "state")
	}
	return filepath.Join(dir, "talaria", "repl_history")
}

// read reads a line that begins with text. Its errors are io.EOF at Ctrl-D and errInterrupted at Ctrl-C.
func (e *lineEditor) read(prompt, text string) (string, error) {
	line, err := e.state.PromptWithSuggestion(prompt, text, -1)
	if errors.Is(err, liner.ErrPromptAborted) {
		return "", errInterrupted
	}
	if err == nil && strings.TrimSpace(line) != "" {
		e.state.AppendHistory(line)
	}
	return line, err
}

// ask reads an answer that is kept in no history, and shows nothing of a password.
func (e *lineEditor) ask(prompt string, password bool) (line string, err error) {
	if password {
		line, err = e.state.PasswordPrompt(prompt)
	} else {
		line, err = e.state.Prompt(prompt)
	}
	if errors.Is(err, liner.ErrPromptAborted) {
		err = errInterrupted
	}
	return line, err
}

// Close restores the terminal and saves the history.
func (e *lineEditor) Close() error {
	var text bytes.Buffer
	_, err := e.state.WriteHistory(&text)
	if e.history != "" && err == nil {
		if err = os.MkdirAll(filepath.Dir(e.history), 0o700); err == nil {
			err = writePrivate(e.history, strings.TrimSuffix(text.String(), "\n"))
		}
	}
	return errors.Join(e.state.Close(), wrapped("save the history", err))
}

func wrapped(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", what, err)
}
