package mcp

import (
	"context"
	"fmt"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// The kinds of tools, as their annotations tell clients: which may run without asking.
var (
	reads    = &sdk.ToolAnnotations{ReadOnlyHint: true, OpenWorldHint: new(bool)}
	writes   = &sdk.ToolAnnotations{DestructiveHint: new(bool), OpenWorldHint: new(bool)}
	destroys = &sdk.ToolAnnotations{DestructiveHint: new(true), OpenWorldHint: new(bool), IdempotentHint: true}
	runs     = &sdk.ToolAnnotations{DestructiveHint: new(true), OpenWorldHint: new(true)}
)

func (h *Handler) addTools(server *sdk.Server) {
	add(h, server, "execute_code", "Run Python", h.ExecuteCode, runs, h.executeCode)
	add(h, server, "get_execution", "Wait for a run",
		"Wait for a run that is still running, and return its result; also returns results of earlier runs.", reads, h.getExecution)
	add(h, server, "reset_session", "Restart Python",
		"Start a fresh interpreter: variables are gone, files and packages are kept.", destroys, h.resetSession)
	add(h, server, "list_files", "List files", "List a folder of the session's workspace.", reads, h.listFiles)
	add(h, server, "read_file", "Read a file",
		"Read a file of the session's workspace: text unchanged, pictures scaled, anything else as base64.", reads, h.readFile)
	add(h, server, "write_file", "Write a file", "Write a file into the session's workspace, replacing an existing one.",
		&sdk.ToolAnnotations{DestructiveHint: new(true), OpenWorldHint: new(bool), IdempotentHint: true}, h.writeFile)
	if h.Tools == ToolsBasic {
		return
	}
	add(h, server, "interrupt", "Interrupt", "Interrupt the running code of the session; variables and files are kept.", writes, h.interrupt)
	if h.Sessions.InstallsPackages() {
		add(h, server, "install_packages", "Install packages", "Install Python packages into the session.",
			&sdk.ToolAnnotations{DestructiveHint: new(bool), OpenWorldHint: new(true)}, h.installPackages)
	}
	add(h, server, "list_variables", "List variables", "List the variables of the session's interpreter, even while code runs.", reads, h.listVariables)
	add(h, server, "create_checkpoint", "Make a checkpoint",
		"Save the session's current variables and files, so that rollback can restore them. This takes milliseconds: do it before code that may damage them.",
		writes, h.createCheckpoint)
	add(h, server, "list_checkpoints", "List checkpoints", "List the session's checkpoints, newest first.", reads, h.listCheckpoints)
	add(h, server, "rollback", "Go back to a checkpoint",
		"Go back to a checkpoint: restores variables and files without running everything again. The result says how to undo it.",
		destroys, h.rollback)
	add(h, server, "fork_session", "Fork the session",
		"Create sessions with the variables and files that this session has now, to try different approaches from the same state. This session stays unchanged.",
		writes, h.forkSession)
	add(h, server, "create_session", "Create a session",
		"Create another session, with its own working directory and variables. You already have a session of your own.", writes, h.createSession)
	add(h, server, "list_sessions", "List sessions", "List your sessions, newest first.", reads, h.listSessions)
	add(h, server, "close_session", "Delete a session", "Delete a session with its variables, files and history.", destroys, h.closeSession)
}

// add offers a tool. Its schemas are those of In and Out.
func add[In, Out any](h *Handler, server *sdk.Server, name, title, description string, hints *sdk.ToolAnnotations,
	call func(context.Context, *request, *sdk.CallToolRequest, In) (*sdk.CallToolResult, Out, error),
) {
	tool := &sdk.Tool{Name: name, Title: title, Description: description, Annotations: hints}
	sdk.AddTool(server, tool, func(ctx context.Context, req *sdk.CallToolRequest, in In) (*sdk.CallToolResult, Out, error) {
		q := requestOf(ctx)
		result, out, err := call(ctx, q, req, in)
		if err != nil {
			problem := h.Problem(q.ctx, err, "tools/call "+name)
			return nil, out, fmt.Errorf("%s: %s", problem.Code, problem.Detail)
		}
		return result, out, nil
	})
}
