package server

import (
	"net/http"

	"talaria/api"
)

// routes is every endpoint. HEAD goes with each GET that is not a socket.
func (s *Server) routes() []route {
	const one = "/v1/sessions/{id}"
	with := s.withSession
	return []route{
		get("/", s.getPage, doc{
			id: "getPage", summary: "The notebook page, or its login form", answers: answers{200: html}}).opened(),
		get("/static/{path}", s.getStatic, doc{
			id: "getStatic", summary: "The page's files", answers: answers{200: bytesOf("*/*")}}).opened(),
		get("/sandbox/{frame}", s.getFrame, doc{
			id: "getFrame", summary: "A frame of the page for untrusted output", answers: answers{200: html}}).opened(),
		get("/sdk/{path}", s.getSDK, doc{
			id: "getSDK", summary: "A file of the client libraries; with an empty path, their list",
			answers: answers{200: bytesOf("*/*")}}).opened(),
		post("/login", s.login, doc{
			id: "login", summary: "Set the page's cookie", body: form(loginForm{}),
			answers: answers{303: nothing, 401: html}}).opened(),
		post("/logout", s.logout, doc{
			id: "logout", summary: "End the page's login", answers: answers{303: nothing}}).opened(),
		get("/healthz", s.getHealth, doc{
			id: "getHealth", summary: "Whether the server runs", answers: answers{200: jsonOf[health]()}}).opened(),
		get("/readyz", s.getReady, doc{
			id: "getReady", summary: "Whether sessions can be created", answers: answers{200: jsonOf[health]()}}).opened(),
		get("/metrics", s.getMetrics, doc{
			id: "getMetrics", summary: "Figures for Prometheus (first owner)", answers: answers{200: bytesOf("text/plain")}}),
		get("/openapi.json", s.getOpenAPI, doc{
			id: "getOpenAPI", summary: "This description", answers: answers{200: jsonOf[struct{}]()}}),
		get("/v1/stats", s.getStats, doc{
			id: "getStats", summary: "Figures of the server (first owner)", answers: answers{200: jsonOf[api.Stats]()}}),

		get("/v1/tokens", s.listOwnedTokens, doc{
			id: "listOwnedTokens", summary: "Your tokens, including those for one session",
			query: "list.limit cursor", answers: answers{200: jsonOf[api.Page[api.OwnedToken]]()}}),
		del("/v1/tokens/{token}", s.deleteOwnedToken, doc{
			id: "deleteOwnedToken", summary: "Revoke one of your tokens", answers: answers{204: nothing}}),

		get("/v1/tools/execute_code", s.getExecuteCode, doc{
			id: "describeExecuteCode", summary: "The tool execute_code, described for a language model",
			query: "dialect session", answers: answers{200: jsonOf[struct{}]()}}),

		post("/v1/run", s.postRun, doc{
			id: "run", summary: "Run a program of any language to its end, in a fresh sandbox", body: jsonOf[api.RunRequest](),
			answers: answers{200: jsonOf[api.RunResult]()}}),

		post("/v1/batch", s.withBatches(s.postBatch), doc{
			id: "createBatch", summary: "Run many cells over sessions", body: jsonOf[api.BatchRequest](),
			answers: answers{202: jsonOf[api.Batch]()}}),
		get("/v1/batch", s.withBatches(s.listBatches), doc{
			id: "listBatches", summary: "List batches without their items, newest first", query: "limit cursor",
			answers: answers{200: jsonOf[api.Page[api.Batch]]()}}),
		get("/v1/batch/{bid}", s.withBatches(s.getBatch), doc{
			id: "getBatch", summary: "A batch with all its items", answers: answers{200: jsonOf[api.Batch]()}}).bulky(),
		get("/v1/batch/{bid}/events", s.withBatches(s.getBatchEvents), doc{
			id: "getBatchEvents", summary: "The events of a batch from a position, then live, to its end",
			query: "after follow Last-Event-ID", answers: answers{200: batchEvents()}}),
		del("/v1/batch/{bid}", s.withBatches(s.cancelBatch), doc{
			id: "cancelBatch", summary: "Cancel what has not ended", answers: answers{200: jsonOf[api.Batch](), 202: jsonOf[api.Batch]()}}).bulky(),

		post("/v1/sessions", s.createSession, doc{
			id: "createSession", summary: "Create a session", body: optional(jsonOf[api.SessionRequest]()),
			answers: answers{201: jsonOf[api.Session]()}}),
		get("/v1/sessions", s.listSessions, doc{
			id: "listSessions", summary: "List sessions, newest first", query: "state search metadata.KEY limit cursor",
			answers: answers{200: jsonOf[api.Page[api.Session]]()}}),
		get(one, with(s.getSession), doc{
			id: "getSession", summary: "One session", answers: answers{200: jsonOf[api.Session]()}}).readable(),
		put(one, s.ensureSession, doc{
			id: "ensureSession", summary: "Get or create the session with this id", query: "if_exists", body: optional(jsonOf[api.SessionRequest]()),
			answers: answers{200: jsonOf[api.Session](), 201: jsonOf[api.Session]()}}),
		patch(one, with(s.patchSession), doc{
			id: "patchSession", summary: "Change a session", body: optional(jsonOf[api.SessionPatch]()),
			answers: answers{200: jsonOf[api.Session]()}}),
		del(one, s.deleteSession, doc{
			id: "deleteSession", summary: "Delete a session with its kernel, workspace and log", answers: answers{204: nothing}}),
		post(one+"/reset", with(s.resetSession), doc{
			id: "resetSession", summary: "Start a fresh interpreter", body: optional(jsonOf[api.ResetRequest]()),
			answers: answers{200: jsonOf[api.Session]()}}).needs(api.RightRun),
		post(one+"/keep", with(s.keepSession), doc{
			id: "keepSession", summary: "Count as use", answers: answers{200: jsonOf[api.Session]()}}).needs(api.RightRun),
		post(one+"/interrupt", with(s.interruptSession), doc{
			id: "interruptSession", summary: "Interrupt the running execution and cancel queued ones",
			body: optional(jsonOf[api.InterruptRequest]()), answers: answers{202: jsonOf[struct{}]()}}).needs(api.RightRun),
		post(one+"/input", with(s.postInput), doc{
			id: "postInput", summary: "Answer a cell's input()", body: jsonOf[api.InputRequest](),
			answers: answers{200: jsonOf[struct{}]()}}).needs(api.RightRun),
		get(one+"/variables", with(s.getVariables), doc{
			id: "listVariables", summary: "The variables of the kernel", answers: answers{200: jsonOf[api.VariablesReply]()}}).needs(api.RightRun),
		post(one+"/ping", with(s.postPing), doc{
			id: "pingKernel", summary: "Whether the kernel's interpreter responds, and how fast", answers: answers{200: jsonOf[api.PingReply]()}}).needs(api.RightRun),
		post(one+"/inspect", with(s.postInspect), doc{
			id: "inspect", summary: "Describe a name in the kernel", body: jsonOf[api.InspectRequest](),
			answers: answers{200: jsonOf[api.InspectReply]()}}).needs(api.RightRun),
		post(one+"/packages", with(s.postPackages), doc{
			id: "installPackages", summary: "Install packages into the session", query: "wait_s",
			body: jsonOf[api.PackagesRequest](), answers: answers{200: streamed[api.Execution](), 202: jsonOf[api.Execution]()}}).needs(api.RightRun),

		post(one+"/map", with(s.postMap), doc{
			id: "map", summary: "Run a function or a cell for each of many inputs, in copies of the interpreter",
			body: jsonOf[api.MapRequest](), answers: answers{200: mapped(), 202: jsonOf[api.MapResult]()}}).needs(api.RightRun),

		post(one+"/executions", with(s.postExecution), doc{
			id: "execute", summary: "Run a cell", query: "wait_s format", body: jsonOf[api.ExecutionRequest](),
			answers: answers{200: streamed[api.Execution](), 202: jsonOf[api.Execution]()}}).needs(api.RightRun),
		post(one+"/executions/{eid}/tool_results", with(s.postToolResults), doc{
			id: "answerToolCalls", summary: "Answer tool calls of an execution, and continue to wait", query: "wait_s format",
			body: jsonOf[api.ToolResults](), answers: answers{200: jsonOf[api.Execution](), 202: jsonOf[api.Execution]()}}).needs(api.RightRun),
		get(one+"/tools", with(s.listTools), doc{
			id: "listTools", summary: "The tools that cells see, by name",
			query: "list.limit cursor", answers: answers{200: jsonOf[api.Page[api.ToolInfo]]()}}).needs(api.RightRun),
		get(one+"/tool_calls", with(s.listToolCalls), doc{
			id: "listToolCalls", summary: "The audit of tool calls, newest first", query: "limit cursor",
			answers: answers{200: jsonOf[api.Page[api.ToolCallRecord]]()}}).needs(api.RightRun),
		get(one+"/approvals", with(s.listApprovals), doc{
			id: "listApprovals", summary: "Questions to people and their answers, newest first; with state=pending, only the open ones",
			query: "approvals.state limit cursor", answers: answers{200: jsonOf[api.Page[api.Approval]]()}}).needs(api.RightRun),
		post(one+"/approvals/{approval_id}", with(s.postApproval), doc{
			id: "decideApproval", summary: "Decide on an approval; the first answer wins", body: jsonOf[api.ApprovalAnswer](),
			answers: answers{200: jsonOf[struct{}]()}}).needs(api.RightRun),
		post(one+"/checkpoints", with(s.postCheckpoint), doc{
			id: "createCheckpoint", summary: "Make a checkpoint now", body: optional(jsonOf[api.CheckpointRequest]()),
			answers: answers{201: jsonOf[api.Checkpoint]()}}).needs(api.RightRun),
		get(one+"/checkpoints", with(s.listCheckpoints), doc{
			id: "listCheckpoints", summary: "The session's checkpoints, newest first",
			query: "list.limit cursor", answers: answers{200: jsonOf[api.Page[api.Checkpoint]]()}}).needs(api.RightRun),
		get(one+"/checkpoints/{cid}", with(s.getCheckpoint), doc{
			id: "getCheckpoint", summary: "One checkpoint", answers: answers{200: jsonOf[api.Checkpoint]()}}).needs(api.RightRun),
		get(one+"/checkpoints/{cid}/diff", with(s.getCheckpointDiff), doc{
			id: "diffCheckpoint", summary: "What changed since a checkpoint, up to another one or the current state", query: "to",
			answers: answers{200: jsonOf[api.CheckpointDiff]()}}).needs(api.RightRun),
		del(one+"/checkpoints/{cid}", with(s.deleteCheckpoint), doc{
			id: "deleteCheckpoint", summary: "Delete a checkpoint", answers: answers{204: nothing}}).needs(api.RightRun),
		post(one+"/rollback", with(s.postRollback), doc{
			id: "rollback", summary: "Take the session back to a checkpoint", body: jsonOf[api.RollbackRequest](),
			answers: answers{200: jsonOf[api.RollbackReply]()}}).needs(api.RightRun),
		post(one+"/hibernate", with(s.postHibernate), doc{
			id: "hibernate", summary: "Save the variables and end the kernel", answers: answers{200: jsonOf[api.HibernateReply]()}}).needs(api.RightRun),
		post(one+"/wake", with(s.postWake), doc{
			id: "wake", summary: "Start the kernel again, with the saved variables",
			answers: answers{200: jsonOf[api.WakeReply]()}}).needs(api.RightRun),
		post(one+"/fork", with(s.postFork), doc{
			id: "fork", summary: "Fork the session: create sessions with its variables and files", body: optional(jsonOf[api.ForkRequest]()),
			answers: answers{201: jsonOf[api.ForkReply]()}}),
		get(one+"/executions", with(s.listExecutions), doc{
			id: "listExecutions", summary: "Executions in full, newest first", query: "limit cursor",
			answers: answers{200: jsonOf[api.Page[api.Execution]]()}}).readable().bulky(),
		get(one+"/executions/{eid}", with(s.getExecution), doc{
			id: "getExecution", summary: "One execution, or its events", query: "after format log_id Last-Event-ID",
			answers: answers{200: streamed[api.Execution]()}}).readable().bulky(),
		get(one+"/executions/{eid}/text", with(s.getText), doc{
			id: "getExecutionText", summary: "All of an execution's text, including what `text` leaves out",
			answers: answers{200: bytesOf("text/plain"), 206: bytesOf("text/plain"), 304: nothing}}).readable().bulky(),
		get(one+"/executions/{eid}/render", with(s.getRendering), doc{
			id: "renderExecution", summary: "An execution as chat messages", query: "target",
			answers: answers{200: jsonOf[api.Rendering]()}}).readable().bulky(),
		get(one+"/executions/{eid}/render/{sha256}", with(s.getRenderedFile), doc{
			id: "getRenderedFile", summary: "The bytes of a file that a rendering refers to",
			answers: answers{200: bytesOf("*/*"), 206: bytesOf("*/*"), 304: nothing}}).readable().bulky(),
		get(one+"/events", with(s.getEvents), doc{
			id: "getEvents", summary: "The log from a position, then live", query: "after follow log_id Last-Event-ID",
			answers: answers{200: events()}}).readable(),
		get(one+"/ws", with(s.serveSocket), doc{
			id: "attach", summary: "A WebSocket on the session, subprotocol talaria.v1", query: "after log_id view usage parts",
			answers: answers{101: nothing}}).socketed().readable(),

		get(one+"/files", with(s.getFiles), doc{
			id: "listFiles", summary: "One folder of the workspace",
			query: "path list.limit cursor", answers: answers{200: jsonOf[fileList]()}}).readable(),
		post(one+"/files", with(s.postFiles), doc{
			id: "uploadFiles", summary: "Upload several files; their names may contain folders", body: multipartFiles(),
			answers: answers{201: jsonOf[fileList]()}}).needs(api.RightWrite),
		get(one+"/files/{path}", with(s.getFile), doc{
			id: "getFile", summary: "Download a file", answers: answers{200: bytesOf("*/*"), 206: bytesOf("*/*"), 304: nothing}}).readable(),
		put(one+"/files/{path}", with(s.putFile), doc{
			id: "putFile", summary: "Upload a file", body: bytesOf("*/*"),
			answers: answers{200: jsonOf[api.File](), 201: jsonOf[api.File]()}}).needs(api.RightWrite),
		patch(one+"/files/{path}", with(s.renameFile), doc{
			id: "renameFile", summary: "Rename a file", body: jsonOf[renameRequest](), answers: answers{200: jsonOf[api.File]()}}).needs(api.RightWrite),
		del(one+"/files/{path}", with(s.deleteFile), doc{
			id: "deleteFile", summary: "Delete a file or a folder", answers: answers{204: nothing}}).needs(api.RightWrite),
		get(one+"/artifacts", with(s.listArtifacts), doc{
			id: "listArtifacts", summary: "Files that executions created, newest first", query: "limit cursor",
			answers: answers{200: jsonOf[api.Page[api.SessionArtifact]]()}}).readable().bulky(),
		get("/v1/artifacts/{sha256}", s.getArtifact, doc{
			id: "getArtifact", summary: "The bytes of an artifact",
			answers: answers{200: bytesOf("*/*"), 206: bytesOf("*/*"), 304: nothing}}).readable(),
		get(one+"/notebook", with(s.getNotebook), doc{
			id: "getNotebook", summary: "The session as a notebook file", answers: answers{200: notebook}}).readable().bulky(),
		post(one+"/notebook", with(s.postNotebook), doc{
			id: "postNotebook", summary: "Import a notebook file; runs nothing", body: notebook,
			answers: answers{200: jsonOf[api.Session]()}}).needs(api.RightWrite),

		get(one+"/document", with(s.getDocument), doc{
			id: "getDocument", summary: "The notebook page's cells", answers: answers{200: jsonOf[api.Document]()}}).readable().bulky(),
		get(one+"/view", with(s.getView), doc{
			id: "getView", summary: "The document and the last execution of each cell, to continue with the events after `seq`",
			answers: answers{200: jsonOf[api.View]()}}).readable().bulky(),
		put(one+"/document", with(s.putDocument), doc{
			id: "putDocument", summary: "Replace the notebook page's cells, if If-Match names their revision",
			body: jsonOf[api.DocumentRequest](), answers: answers{200: jsonOf[api.Document]()}}).needs(api.RightWrite),
		post(one+"/shares", with(s.createShare), doc{
			id: "createShare", summary: "Create a read-only link", body: optional(jsonOf[struct{}]()),
			answers: answers{201: jsonOf[api.Share]()}}),
		get(one+"/shares", with(s.listShares), doc{
			id: "listShares", summary: "Read-only links, newest first",
			query: "list.limit cursor", answers: answers{200: jsonOf[api.Page[api.Share]]()}}),
		del(one+"/shares/{share}", with(s.deleteShare), doc{
			id: "deleteShare", summary: "Revoke a read-only link", answers: answers{204: nothing}}),
		post(one+"/tokens", with(s.createToken), doc{
			id: "createToken", summary: "Create a token for this session", body: optional(jsonOf[api.SessionTokenRequest]()),
			answers: answers{201: jsonOf[api.SessionToken]()}}),
		get(one+"/tokens", with(s.listTokens), doc{
			id: "listTokens", summary: "Tokens of this session, newest first",
			query: "list.limit cursor", answers: answers{200: jsonOf[api.Page[api.SessionToken]]()}}),
		del(one+"/tokens/{token}", with(s.deleteToken), doc{
			id: "deleteToken", summary: "Revoke a token of this session", answers: answers{204: nothing}}),
		post(one+"/terminals", with(s.createTerminal), doc{
			id: "createTerminal", summary: "Open a shell in the sandbox", body: optional(jsonOf[api.TerminalRequest]()),
			answers: answers{201: jsonOf[api.Terminal]()}}).needs(api.RightTerminal),
		get(one+"/terminals", with(s.listTerminals), doc{
			id: "listTerminals", summary: "List shells",
			query: "list.limit cursor", answers: answers{200: jsonOf[api.Page[api.Terminal]]()}}).needs(api.RightTerminal),
		del(one+"/terminals/{tid}", with(s.deleteTerminal), doc{
			id: "deleteTerminal", summary: "End a shell", answers: answers{204: nothing}}).needs(api.RightTerminal),
		get(one+"/terminals/{tid}/ws", with(s.serveTerminal), doc{
			id: "attachTerminal", summary: "A WebSocket on a shell: raw bytes", query: "after",
			answers: answers{101: nothing}}).socketed().needs(api.RightTerminal),
	}
}

func get(path string, handle func(*call) error, d doc) route {
	return route{method: http.MethodGet, path: path, handle: handle, doc: d}
}

func post(path string, handle func(*call) error, d doc) route {
	return route{method: http.MethodPost, path: path, handle: handle, doc: d}
}

func put(path string, handle func(*call) error, d doc) route {
	return route{method: http.MethodPut, path: path, handle: handle, doc: d}
}

func patch(path string, handle func(*call) error, d doc) route {
	return route{method: http.MethodPatch, path: path, handle: handle, doc: d}
}

func del(path string, handle func(*call) error, d doc) route {
	return route{method: http.MethodDelete, path: path, handle: handle, doc: d}
}

func (r route) opened() route   { r.open = true; return r }
func (r route) socketed() route { r.socket = true; return r }
func (r route) readable() route { return r.needs(api.RightRead) }

// needs lets visitors with a right in; without it a route is for owners.
func (r route) needs(right api.Right) route { r.right = right; return r }

func (r route) bulky() route { r.large = true; return r }
