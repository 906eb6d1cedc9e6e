package main

import "context"

// row is something that is measured; a sample of it has a number for each metric.
type row struct {
	id      string
	metrics []metric
	n       int    // samples
	few     int    // samples of a quick run
	warmUp  int    // samples before them that are not counted
	only    string // the driver that it makes sense for; "": all
	measure func(ctx context.Context, t *trial) error
}

// metric is one number of a row.
type metric struct {
	what  string
	unit  string
	rate  bool    // more is better
	p50   float64 // what is to be reached; 0: nothing is set
	p95   float64 // 0: nothing is set
	exact bool    // every sample must be p50, even where that is 0
}

// libraries is the cell that shows that the three libraries are loaded and the kernel answers.
const libraries = "import numpy, pandas, matplotlib.pyplot\n1 + 1"

const chart = "import matplotlib.pyplot as plt\nplt.plot([1, 3, 2])\nplt.show()"

// rows are in the order in which they are measured and printed.
var rows = []row{
	{
		id: "create", n: 30, few: 2, warmUp: 3,
		metrics: []metric{{
			what: "create session → result of `1+1`, with numpy, pandas, matplotlib loaded", unit: "ms", p50: 6, p95: 12,
		}},
		measure: fromNothing(flavour{}, libraries, kindResult),
	},
	{
		id: "chart", n: 20, few: 2, warmUp: 2,
		metrics: []metric{{what: "create session → first chart (PNG)", unit: "ms", p50: 100, p95: 120}},
		measure: fromNothing(flavour{}, chart, kindImage),
	},
	{
		id: "warm", n: 300, few: 20, warmUp: 20,
		metrics: []metric{{what: "warm `1+1` over WebSocket, to the end of the cell", unit: "ms", p50: 0.5, p95: 1}},
		measure: warm(flavour{}, attachment{}),
	},
	{
		id: "warm-quickack", n: 300, few: 20, warmUp: 20,
		metrics: []metric{{what: "the same, Jupyter's client with an immediate ACK", unit: "ms"}},
		measure: warm(flavour{}, attachment{quickACK: true}),
	},
	{
		id: "together", n: 10, few: 1,
		metrics: []metric{{
			what: "8 sessions at once, `1+1` one after the other in each", unit: "cells/s", rate: true, p50: 3000,
		}},
		measure: together(8),
	},
	{
		id: "lines", n: 10, few: 2, warmUp: 1,
		metrics: []metric{
			{what: "200,000 printed lines: the first", unit: "ms", p50: 5},
			{what: "200,000 printed lines: the last", unit: "ms", p50: 90},
			{what: "200,000 printed lines: lost", unit: "lines", exact: true},
		},
		measure: printedLines(200_000),
	},
	{
		id: "first-byte", n: 20, few: 2, warmUp: 2,
		metrics: []metric{{what: "`print` without flush → first byte", unit: "ms", p50: 5}},
		measure: firstByte,
	},
	{
		id: "steady", n: 5, few: 1,
		metrics: []metric{
			{what: "50 lines a second: printed → received, the median of 100 lines", unit: "ms", p50: 3},
			{what: "50 lines a second: printed → received, the 95th of 100 lines", unit: "ms", p50: 10},
		},
		measure: steadyLines,
	},
	{
		id: "interrupt", n: 20, few: 2, warmUp: 2,
		metrics: []metric{{what: "interrupt of `while True: pass` → shown", unit: "ms", p50: 5, p95: 15}},
		measure: interrupt,
	},
	{
		id: "reset", n: 20, few: 2, warmUp: 2,
		metrics: []metric{{what: "reset → next result, with the three libraries", unit: "ms", p50: 8, p95: 16}},
		measure: reset,
	},
	{
		id: "files", n: 10, few: 2, warmUp: 1,
		metrics: []metric{
			{what: "upload of 50 MB", unit: "MB/s", rate: true, p50: 500},
			{what: "download of 50 MB", unit: "MB/s", rate: true, p50: 1000},
		},
		measure: files(50_000_000),
	},
	{
		id: "late-client", n: 5, few: 1,
		metrics: []metric{{what: "lines lost by a new client in a 300-line cell", unit: "lines", exact: true}},
		measure: lateClient(300),
	},
	{
		id: "create-unpooled", n: 30, few: 2, warmUp: 5,
		metrics: []metric{{
			what: "create session → result of `1+1`, no ready kernels kept", unit: "ms", p50: 12, p95: 20,
		}},
		measure: fromNothing(flavour{noPool: true}, libraries, kindResult),
	},
	{
		id: "start", n: 10, few: 1, warmUp: 1,
		metrics: []metric{
			{what: "start of the server, on an empty directory, to its first answer", unit: "ms", p50: 100},
			{what: "first session, created at once → result of `1+1`", unit: "ms", p50: 60},
		},
		measure: firstSession,
	},
	{
		id: "bulk", n: 5, few: 1,
		metrics: []metric{
			{what: "100 × 1 MB written at once: kept of 100 MB", unit: "MB", rate: true, exact: true, p50: 100},
			{what: "100 × 1 MB written at once", unit: "MB/s", rate: true, p50: 300},
			{what: "100 × 1 MB written at once: growth of the server (and host)", unit: "MiB", p50: 64},
		},
		measure: bulk(flavour{}, 100),
	},
	{
		id: "bulk-unlimited", n: 5, few: 1,
		metrics: []metric{
			{
				what: "the same, Jupyter's rate limits off: kept of 100 MB", unit: "MB",
				rate: true, exact: true, p50: 100,
			},
			{what: "the same, Jupyter's rate limits off", unit: "MB/s", rate: true},
			{what: "the same, Jupyter's rate limits off: growth of the server (and host)", unit: "MiB"},
		},
		measure: bulk(flavour{noLimits: true}, 100),
	},
	{
		id: "idle", n: 20, few: 3,
		metrics: []metric{{what: "idle session with the three libraries (PSS of all its processes)", unit: "MiB", p50: 6.5}},
		measure: idle,
	},
	{
		id: "idle-cpu", n: 3, few: 1,
		metrics: []metric{{what: "CPU time of an idle session, 3 s after its last cell", unit: "ms/s", p50: 1}},
		measure: idleCPU,
	},
	{
		id: "runner", n: 10, few: 2, only: talariaName,
		metrics: []metric{
			{what: "`x = 1` inside the runner, beyond compiling and executing it", unit: "µs", p50: 60},
			{what: "`1 + 1` inside the runner, beyond compiling and executing it", unit: "µs", p50: 60},
			{what: "`print('x')` inside the runner, beyond compiling and executing it", unit: "µs", p50: 60},
		},
		measure: runnerCosts,
	},
	{
		id: "http-warm", n: 300, few: 20, warmUp: 20, only: talariaName,
		metrics: []metric{{what: "warm `1+1` over HTTP: `POST /v1/sessions/{id}/executions`, waiting for the result", unit: "ms"}},
		measure: warmHTTP,
	},
	{
		id: "jupyter-create", n: 30, few: 2, warmUp: 3, only: talariaName,
		metrics: []metric{{what: "the same with a Jupyter client: create kernel → result of `1+1`, with the three libraries", unit: "ms"}},
		measure: fromNothing(flavour{jupyter: true}, libraries, kindResult),
	},
	{
		id: "jupyter-warm", n: 300, few: 20, warmUp: 20, only: talariaName,
		metrics: []metric{{what: "warm `1+1` with a Jupyter client", unit: "ms"}},
		measure: warm(flavour{jupyter: true}, attachment{}),
	},
	{
		id: "e2b-create", n: 30, few: 2, warmUp: 3, only: talariaName,
		metrics: []metric{{what: "the same with an E2B client: create sandbox → result of `1+1`, with the three libraries", unit: "ms"}},
		measure: fromNothing(flavour{e2b: true}, libraries, kindResult),
	},
	{
		id: "e2b-warm", n: 300, few: 20, warmUp: 20, only: talariaName,
		metrics: []metric{{what: "warm `1+1` with an E2B client", unit: "ms"}},
		measure: warm(flavour{e2b: true}, attachment{}),
	},
	{
		id: "run-python", n: 40, few: 2, warmUp: 3, only: talariaName,
		metrics: []metric{
			{what: "`POST /v1/run` of `print(1+1)` in Python, to the answer", unit: "ms", p50: 15},
			{what: "the same: the program itself", unit: "ms"},
		},
		measure: oneshot("python", "print(1+1)", "2\n", refill),
	},
	{
		id: "run-python-burst", n: 100, few: 5, warmUp: 10, only: talariaName,
		metrics: []metric{
			{what: "the same, one right after the other", unit: "ms"},
			{what: "the same: the program itself", unit: "ms"},
		},
		measure: oneshot("python", "print(1+1)", "2\n", 0),
	},
	{
		id: "run-cpp", n: 10, few: 1, warmUp: 1, only: talariaName,
		metrics: []metric{
			{what: "`POST /v1/run` of a line of C++, to the answer", unit: "ms"},
			{what: "the same: the compiler and the program", unit: "ms"},
		},
		measure: oneshot("cpp", "#include <cstdio>\nint main() { puts(\"2\"); }", "2\n", refill),
	},
	{
		id: "tool-call", n: 300, few: 20, warmUp: 20, only: talariaName,
		metrics: []metric{{what: "call of a tool whose provider on a WebSocket answers at once", unit: "ms", p50: 1}},
		measure: toolCall("echo(n=1)"),
	},
	{
		id: "tool-builtin", n: 300, few: 20, warmUp: 20, only: talariaName,
		metrics: []metric{{what: "`read_file` of one line", unit: "ms"}},
		measure: toolCall("read_file(path='small.txt')"),
	},
	{
		id: "tool-threads", n: 5, few: 1, only: talariaName,
		metrics: []metric{{what: "10 threads, each with 100 calls of a tool that takes 20 ms", unit: "ms", p50: 4000, p95: 4000}},
		measure: toolCall("threads()"),
	},
	{
		id: "tool-interrupt", n: 20, few: 2, warmUp: 2, only: talariaName,
		metrics: []metric{{what: "interrupt of a cell that waits for eight tool calls → shown", unit: "ms", p50: 100, p95: 100}},
		measure: toolInterrupt,
	},
	{
		id: "checkpoint", n: 20, few: 2, warmUp: 2, only: talariaName,
		metrics: []metric{
			{what: "make a checkpoint", unit: "ms"},
			{what: "make a checkpoint, with 50 MiB in arrays of 1 MiB", unit: "ms"},
			{what: "make a checkpoint, with 500 MiB in arrays of 1 MiB", unit: "ms"},
			{what: "make a checkpoint, with 2 GiB in arrays of 1 MiB", unit: "ms"},
		},
		measure: checkpointing,
	},
	{
		id: "rollback", n: 20, few: 2, warmUp: 2, only: talariaName,
		metrics: []metric{
			{what: "go back to a checkpoint", unit: "ms"},
			{what: "go back to a checkpoint, with 50 MiB in arrays of 1 MiB", unit: "ms"},
			{what: "go back to a checkpoint, with 500 MiB in arrays of 1 MiB", unit: "ms"},
			{what: "go back to a checkpoint, with 2 GiB in arrays of 1 MiB", unit: "ms"},
		},
		measure: rollingBack,
	},
	{
		id: "after-checkpoint", n: 20, few: 2, warmUp: 2, only: talariaName,
		metrics: []metric{
			{what: "rewrite 50 of 500 MiB in a cell right after a checkpoint", unit: "ms"},
			{what: "the same without a checkpoint", unit: "ms"},
		},
		measure: afterCheckpoint,
	},
	{
		id: "hibernate", n: 10, few: 1, warmUp: 1, only: talariaName,
		metrics: []metric{
			{what: "hibernate, with 10 MiB in arrays and frames of 1 MiB, to the answer", unit: "ms"},
			{what: "hibernate, with 100 MiB in arrays and frames of 1 MiB, to the answer", unit: "ms"},
		},
		measure: hibernating,
	},
	{
		id: "wake", n: 10, few: 1, warmUp: 1, only: talariaName,
		metrics: []metric{
			{what: "wake, with 10 MiB in arrays and frames of 1 MiB, to the answer", unit: "ms"},
			{what: "wake, with 100 MiB in arrays and frames of 1 MiB, to the answer", unit: "ms"},
		},
		measure: waking,
	},
	{
		id: "fork", n: 10, few: 1, warmUp: 1, only: talariaName,
		metrics: []metric{
			{what: "fork a session with 20 MiB in arrays and frames, to the answer", unit: "ms"},
			{what: "the same: until the fork has answered a cell", unit: "ms"},
			{what: "64 forks of it at once, to the answer", unit: "ms"},
			{what: "the same: until the first of them has answered a cell", unit: "ms"},
		},
		measure: forking,
	},
	{
		id: "pickle", n: 10, few: 1, warmUp: 1, only: talariaName,
		metrics: []metric{
			{what: "pickle to a file in a cell: 10 MiB in arrays and frames of 1 MiB", unit: "ms"},
			{what: "pickle to a file in a cell: 20 MiB in arrays and frames of 1 MiB", unit: "ms"},
			{what: "pickle to a file in a cell: 100 MiB in arrays and frames of 1 MiB", unit: "ms"},
		},
		measure: pickling,
	},
	{
		id: "criu", n: 10, few: 1, warmUp: 1, only: talariaName,
		metrics: []metric{
			{what: "`criu dump` of a Python process with 10 MiB in arrays and frames of 1 MiB", unit: "ms"},
			{what: "`criu dump` of a Python process with 100 MiB in arrays and frames of 1 MiB", unit: "ms"},
		},
		measure: dumping,
	},
	{
		id: "map", n: 20, few: 2, warmUp: 1, only: talariaName,
		metrics: []metric{{what: "map of 256 inputs, 8 copies at a time, to the answer", unit: "ms"}},
		measure: mapping(256, 8),
	},
	{
		id: "kill", n: 5, few: 2,
		metrics: []metric{{
			what: "share of sessions alive after `kill -9` of the server", unit: "%", rate: true, exact: true, p50: 100,
		}},
		measure: kill,
	},
	{
		id: "abusers", n: 300, few: 10, warmUp: 5, only: talariaName,
		metrics: []metric{
			{
				what: "`1+1` beside a fork bomb, a memory bomb, a full disk, a flood of output and a busy loop on all CPUs",
				unit: "ms", p50: 50, p95: 50,
			},
			{what: "the same: growth of the server and host", unit: "MiB", p50: 256},
		},
		measure: besideAbusers,
	},
	sparseFiles.row(), rewrittenFile.row(), displays.row(), fullAnswers.row(), overlappingSecret.row(),
	endlessSecret.row(), longPaths.row(), deepPaths.row(), kernelObjects.row(), muteBodies.row(), unreadAnswers.row(),
	unmappedMemory.row(),
	{
		id: "network", n: 10, few: 2, warmUp: 2, only: talariaName,
		metrics: []metric{
			{what: "session with a network: look up a name, connect, fetch one byte", unit: "ms", p50: 2},
			{what: "session with a network: download of 400 MB", unit: "MB/s", rate: true, p50: 400},
		},
		measure: throughNetwork,
	},
	{
		id: "scale", n: 1000, few: 0, only: talariaName,
		metrics: []metric{
			{what: "many sessions: create with the libraries and a variable", unit: "ms"},
			{what: "many sessions: ask one at random for its variable", unit: "ms", p50: 4},
			{what: "many sessions: errors", unit: "", exact: true},
			{what: "many sessions: PSS of everything, including server and host, per session", unit: "MiB", p50: 4},
			{what: "many sessions: growth of used swap", unit: "MiB", exact: true},
			{what: "many sessions: `GET /v1/sessions`", unit: "ms", p50: 50, p95: 50},
			{what: "many sessions: `GET /v1/sessions?limit=1000`", unit: "ms", p50: 30},
		},
		measure: scale,
	},
}
