package kerneltest

import (
	"fmt"
	"runtime"
	"sync"

	"talaria/kernel"
)

// Cell is one execution of a fake interpreter.
type Cell struct {
	Frame
	Runner *Runner

	interrupts chan struct{}
	answers    chan Frame
	questions  int

	mu          sync.Mutex // guards the fields below
	interrupted bool
	failed      bool
}

// Cells returns a script that is ready at once and calls run for each cell, in a goroutine of its own; the cell is
// done when run returns. A cell that never calls Raise is ok. The answer to a query repeats its code; a query about
// "hang" gets none. Variables are neither saved nor loaded.
func Cells(run func(c *Cell)) Script {
	return func(r *Runner) {
		r.Ready()
		var current *Cell
		var cells sync.WaitGroup
		defer cells.Wait()
		questions := 0
		for {
			f, ok := r.Read()
			if !ok {
				return
			}
			switch f.Type {
			case "execute":
				cells.Wait()
				if current != nil {
					questions = current.questions
				}
				c := &Cell{
					Frame: f, Runner: r, questions: questions,
					interrupts: make(chan struct{}, 64), answers: make(chan Frame, 64),
				}
				current = c
				cells.Go(func() {
					run(c)
					c.finish()
				})
			case "interrupt":
				if current != nil && current.ID == f.ID {
					current.interrupt()
				}
			case "progress", "answer":
				if current != nil {
					current.answers <- f
				}
			case "complete", "inspect", "is_complete", "variables", "table", "ping", "save", "load":
				answer(r, f)
			}
		}
	}
}

func answer(r *Runner, f Frame) {
	if f.Code == "hang" {
		return
	}
	fields := map[string]any{"request_id": f.RequestID}
	switch f.Type {
	case "complete":
		fields["type"], fields["matches"] = "completion", []string{f.Code}
		fields["start"], fields["end"] = 0, f.Cursor
	case "inspect":
		fields["type"], fields["found"] = "inspection", f.Code != "nothing"
		fields["data"] = map[string]string{"text/plain": fmt.Sprintf("%s %d", f.Code, f.Detail)}
	case "is_complete":
		fields["type"], fields["status"], fields["indent"] = "completeness", "incomplete", "    "
	case "variables":
		fields["type"], fields["total"] = "variables", 7
		fields["items"] = []map[string]any{{"name": "x", "type": "int", "preview": "5"}}
	case "ping":
		fields["type"] = "pong"
	case "save", "load":
		fields["type"], fields["reason"] = map[string]string{"save": "saved", "load": "loaded"}[f.Type], "a script has no variables"
		fields["count"], fields["lost"], fields["bytes"], fields["digest"] = 0, []any{}, 0, ""
	case "table":
		fields["type"], fields["state"], fields["offset"], fields["total"] = "table_page", "ok", f.Offset, 9
		fields["rows"] = [][]any{{f.Offset, "a", nil}}
		if f.Table != "t" { // the word names the state
			fields["state"], fields["reason"] = f.Table, "because"
		}
	}
	r.Send(fields)
}

func (c *Cell) interrupt() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.interrupted = true
	select {
	case c.interrupts <- struct{}{}:
	default:
	}
}

func (c *Cell) finish() {
	c.mu.Lock()
	status, interrupted := "ok", false
	if c.failed {
		status, interrupted = "error", c.interrupted
	}
	c.mu.Unlock()
	c.Runner.Done(c.ID, status, interrupted)
}

// Print sends text to stdout, at Python's level.
func (c *Cell) Print(text string) { c.Runner.Stream(c.ID, "stdout", text, 0) }

// PrintErr sends text to stderr, at Python's level.
func (c *Cell) PrintErr(text string) { c.Runner.Stream(c.ID, "stderr", text, 0) }

// Display shows a MIME bundle.
func (c *Cell) Display(data map[string]any) {
	c.Runner.Send(map[string]any{"type": "display", "id": c.ID, "data": data, "metadata": map[string]any{}})
}

// Update replaces what was shown under displayID; with update false it shows it for the first time.
func (c *Cell) Update(displayID string, update bool, data map[string]any) {
	c.Runner.Send(map[string]any{
		"type": "display", "id": c.ID, "data": data, "metadata": map[string]any{},
		"display_id": displayID, "update": update,
	})
}

// Clear clears the output.
func (c *Cell) Clear(wait bool) {
	c.Runner.Send(map[string]any{"type": "clear", "id": c.ID, "wait": wait})
}

// Result sends the value of the last expression, as plain text.
func (c *Cell) Result(text string) {
	c.Runner.Send(map[string]any{
		"type": "result", "id": c.ID, "data": map[string]any{"text/plain": text}, "metadata": map[string]any{},
	})
}

// Raise makes an exception reach the end of the cell.
func (c *Cell) Raise(ename, evalue string) {
	c.mu.Lock()
	c.failed = true
	c.mu.Unlock()
	c.Runner.Send(map[string]any{
		"type": "error", "id": c.ID, "ename": ename, "evalue": evalue,
		"traceback": []string{"Traceback (most recent call last):", ename + ": " + evalue},
	})
}

// Interrupted waits for an interrupt.
func (c *Cell) Interrupted() {
	select {
	case <-c.interrupts:
	case <-c.Runner.ctx.Done():
		runtime.Goexit()
	}
}

// Sleep waits for an interrupt and raises KeyboardInterrupt, like a cell that runs forever.
func (c *Cell) Sleep() {
	c.Interrupted()
	c.Raise("KeyboardInterrupt", "")
}

// Input asks and waits. It returns false if the question was refused or interrupted.
func (c *Cell) Input(prompt string) (string, bool) {
	id := c.AskInput(prompt)
	for {
		select {
		case f := <-c.answers:
			if f.Ask == id {
				return f.Body.Value, f.Error == ""
			}
		case <-c.interrupts:
			return "", false
		case <-c.Runner.ctx.Done():
			runtime.Goexit()
		}
	}
}

// AskInput asks for a line and returns the id of the ask.
func (c *Cell) AskInput(prompt string) (ask string) {
	c.questions++
	ask = fmt.Sprintf("q%d", c.questions)
	c.ask(c.ID, ask, "input", map[string]any{"prompt": prompt, "password": false})
	return ask
}

// Install asks for packages and waits. output is what their installer printed and failure is its error; ok is false if
// the cell was interrupted.
func (c *Cell) Install(requirements ...string) (output, failure string, ok bool) {
	id := c.AskInstall(c.ID, requirements...)
	for {
		select {
		case f := <-c.answers:
			switch {
			case f.Ask != id:
			case f.Type == "answer":
				return output, f.Error, true
			default:
				output += f.Text
			}
		case <-c.interrupts:
			return output, "", false
		case <-c.Runner.ctx.Done():
			runtime.Goexit()
		}
	}
}

// AskInstall asks for packages on behalf of an execution, or of none, and returns the id of the ask.
func (c *Cell) AskInstall(execution string, requirements ...string) (ask string) {
	c.questions++
	ask = fmt.Sprintf("%032x", c.questions)
	c.ask(execution, ask, "install", map[string]any{"requirements": requirements})
	return ask
}

// AskTools asks which tools exist, and returns the id of the ask.
func (c *Cell) AskTools() (ask string) {
	c.questions++
	ask = fmt.Sprintf("t%d", c.questions)
	c.ask(c.ID, ask, "tools", map[string]any{})
	return ask
}

// CallTool calls a tool and returns the id of the call. [Cell.Answer] returns the answer.
func (c *Cell) CallTool(tool string, arguments map[string]any) (call string) {
	c.questions++
	call = fmt.Sprintf("c%d", c.questions)
	c.ask(c.ID, call, "tool", map[string]any{"tool": tool, "arguments": arguments})
	return call
}

// AskAfter asks for something that is to be done after the cell, and returns the id of the ask. [Cell.Answer] returns the answer.
func (c *Cell) AskAfter(body map[string]any) (ask string) {
	c.questions++
	ask = fmt.Sprintf("a%d", c.questions)
	c.ask(c.ID, ask, "after", body)
	return ask
}

// EndTool reports how a call ended that the runner carried out itself. code is "" if it succeeded.
func (c *Cell) EndTool(call, code, message string) {
	c.Runner.Send(map[string]any{"type": "tool_end", "id": c.ID, "ask": call, "ok": code == "", "code": code, "message": message})
}

func (c *Cell) ask(execution, ask, kind string, body map[string]any) {
	frame := map[string]any{"type": "ask", "ask": ask, "kind": kind, "body": body}
	if execution != "" {
		frame["id"] = execution
	}
	c.Runner.Send(frame)
}

// Withdraw ends an ask without waiting for its answer.
func (c *Cell) Withdraw(ask string) { c.Runner.Send(map[string]any{"type": "ask_end", "ask": ask}) }

// Answer waits for the next frame that reports the progress of an ask, or answers it.
func (c *Cell) Answer() Frame {
	select {
	case f := <-c.answers:
		return f
	case <-c.Runner.ctx.Done():
		runtime.Goexit()
	}
	panic("unreachable")
}

// Stuck waits for the death of the process and nothing else.
func (c *Cell) Stuck() {
	<-c.Runner.ctx.Done()
	runtime.Goexit()
}

// Exit ends the process with that status, in the middle of the cell.
func (c *Cell) Exit(code int) { c.Runner.Exit(kernel.Exit{Code: code}) }
