// Package runner embeds the Python that runs inside a sandbox: talaria_init, which seals the sandbox and is its pid 1,
// and talaria_runner, the interpreter that executes cells. It needs the standard library only. The folder programs
// holds what other processes of the session find in place of pip.
//
// # Control frames
//
// The host and the runner talk over a stream of JSON objects. Each frame is one line; a writer puts a newline before
// and after the object and a reader skips empty lines, so that half a frame forged by user code spoils no other. All
// frames from inside are untrusted. The folder testdata has an example of each frame, as its sender writes it.
//
// From the host:
//
//	{"type":"execute","id":ID,"code":SOURCE,"count":N,"silent":BOOL,"allow_stdin":BOOL,"expressions":{NAME:SOURCE}}
//	{"type":"interrupt","id":ID}                         KeyboardInterrupt, only while that execution runs
//	{"type":"progress","ask":AID,"text":TEXT}            text to show while an ask waits for its answer
//	{"type":"answer","ask":AID,"body":{…}}               the answer to an ask; it is closed
//	{"type":"answer","ask":AID,"error":TEXT,"code":WORD} why there is none; the code may be left out
//	{"type":"complete","request_id":QID,"code":SOURCE,"cursor":N}
//	{"type":"inspect","request_id":QID,"code":SOURCE,"cursor":N,"detail":0|1}
//	{"type":"is_complete","request_id":QID,"code":SOURCE}
//	{"type":"variables","request_id":QID}
//	{"type":"ping","request_id":QID}                     a sign of life, also while a cell runs
//	{"type":"copy","request_id":QID}                     make a copy of the interpreter that waits
//	{"type":"aside","request_id":QID,"until":N}          wait as a copy does, unless CLOCK_MONOTONIC is past N seconds; the answer is
//	                                                     also "copied", with the pid of the interpreter itself
//	{"type":"save","request_id":QID,"path":FILE,"seconds":N,"max_bytes":N}   save the variables
//	{"type":"load","request_id":QID,"path":FILE,"digest":HEX}                load them
//	{"type":"comm","id":ID,"action":"open"|"msg"|"close","comm":CID,"target":NAME,"data":{…},"metadata":{…},"buffers":[BASE64,…]}
//	                                                     a message of a front end; the ID is that of its own execution
//	{"type":"table","request_id":QID,"table":REFERENCE,"filter":TEXT,"sort":[{"column":N,"descending":BOOL},…],"offset":N,"count":N}
//
// From the runner (count is never sent back; times and exit codes come from the operating system):
//
//	{"type":"ready","mark":HEX}                          once, when it can execute; again from a copy that takes its place
//	{"type":"stream","id":ID,"name":"stdout","text":TEXT,"mark":K}
//	{"type":"display","id":ID,"data":{MIME:VALUE},"metadata":{},"display_id":DID,"update":BOOL,"mark":K}
//	{"type":"result","id":ID,"data":{MIME:VALUE},"metadata":{}}
//	{"type":"error","id":ID,"ename":NAME,"evalue":TEXT,"traceback":[LINE,…],"hint":TEXT,"frames":[FRAME,…]}
//	    FRAME is {"file":NAME,"line":N,"function":NAME,"user":BOOL,"cell":ID,"traceback_start":N,"traceback_end":N}
//	{"type":"clear","id":ID,"wait":BOOL,"mark":K}
//	{"type":"expressions","id":ID,"values":{NAME:{"status":"ok"|"error",…}}}   of the expressions that came with the execution
//	{"type":"comm","id":ID,"action":"open"|"msg"|"close","comm":CID,"target":NAME,"data":{…},"metadata":{…},"buffers":[BASE64,…],"mark":K}
//	{"type":"comm_end","id":ID}                          a message of a front end has been handled
//	{"type":"ask","id":ID,"ask":AID,"kind":WORD,"body":{…}}   without "id" if no cell asks
//	{"type":"ask_end","ask":AID}                         nobody waits for the answer any longer
//	{"type":"tool_end","id":ID,"ask":AID,"ok":BOOL,"code":WORD,"message":TEXT,"duration_ms":N}   of a call answered with "run"
//	{"type":"done","id":ID,"status":"ok"|"error","interrupted":BOOL}
//	{"type":"completion","request_id":QID,"matches":[TEXT,…],"start":N,"end":N}
//	{"type":"inspection","request_id":QID,"found":BOOL,"data":{MIME:VALUE}}
//	{"type":"completeness","request_id":QID,"status":WORD,"indent":SPACES}
//	{"type":"pong","request_id":QID}
//	{"type":"copied","request_id":QID,"pid":N,"reason":TEXT,"losses":[{"name":TEXT,"reason":TEXT},…]}
//	{"type":"saved"|"loaded","request_id":QID,"reason":TEXT,"count":N,"lost":[{"name":TEXT,"type":TEXT,"reason":TEXT},…],"bytes":N,"digest":HEX}
//	{"type":"later","request_id":QID}                    a cell came before one of these
//	{"type":"variables","request_id":QID,"items":[{"name":…,"type":…,"preview":…,…},…],"total":N}
//	{"type":"table_page","request_id":QID,"state":"ok"|"gone"|"changed"|"unsortable","reason":TEXT,"offset":N,"total":N,"rows":[[CELL,…],…]}
//
// The answers to queries about names and to a ping come within 200 ms or not at all, also while a cell runs; copy, save and load
// are done between two cells.
// Positions in code are counted in code points.
//
// # Letters
//
// A copy of the interpreter that waits has no stream of its own. The host puts a save frame for it into the file
// .talaria-upload-letter of the workspace and has pid 1 signal it (SIGRTMAX-1). The copy saves its variables, puts the saved
// frame in the letter's place, and stops itself (SIGSTOP); pid 1 then lets it go on, and the host reads the answer. If there is
// none, saving failed.
//
// # Asks
//
// Code inside asks the outside for something with an ask frame, whose AID the runner chooses, and waits for the answer
// frame. Any number of threads may do so at once. The host answers every ask that it reads, with an error where it
// refuses it, and closes the asks of an execution when that is interrupted, times out or ends. By kind:
//
//	kind     body of the ask                              body of the answer
//	input    {"prompt":TEXT,"password":BOOL}              {"value":TEXT}
//	install  {"remove":BOOL,"requirements":[TEXT,…],      {"packages":[{"name":NAME,"version":TEXT},…]}
//	          "upgrade":BOOL,"reinstall":BOOL,            a version is "" where the package is gone
//	          "no_deps":BOOL,"pre":BOOL,"quiet":BOOL}
//	tools    {}                                           {"tools":[{"name":NAME,"description":TEXT,"server":NAME,
//	                                                      "parameters":SCHEMA,"builtin":BOOL,"gone":BOOL},…]}
//	tool     {"tool":NAME,"arguments":{…}}                {"result":VALUE}, or {"run":true} for a built-in tool, which
//	                                                      the runner then carries out itself
//	after    {"action":"checkpoint","name":TEXT,          {"checkpoint_id":ID}, of the one that will be made when the cell
//	          "level":WORD} or                            has ended, or that the session will go back to then
//	         {"action":"rollback","to":TEXT,"what":WORD,
//	          "keep_user_edits":BOOL}
//
// # Marks
//
// Python-level text travels in frames; C code and child processes write to the pipes on fd 1 and 2. Once a cell has
// started a child or opened a C library, the runner puts "mark":K (K = 1, 2, …) into each stream, display and clear
// frame, and before it sends that frame writes the bytes "\x1e" HEX ":" K "\x1e" to both pipes, HEX being the one of
// the ready frame. Bytes before the mark in a pipe were written before the frame, bytes after it came later: the host
// puts them in that order and removes the marks. A stream frame without text only carries its mark.
package runner

import (
	"embed"
	"io/fs"
)

//go:embed talaria_init/*.py talaria_runner/*.py talaria_runner/*/*.py talaria_runner/*/*/*.py programs/bin/* programs/python/*/*.py
var sources embed.FS

// Sources returns the tree of both packages, to be put on the module path of an interpreter, and of the programs;
// those in programs/bin must be executable.
func Sources() fs.FS { return sources }
