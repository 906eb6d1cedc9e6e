package e2e

import (
	"encoding/json"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// rules hold the import graph: who may not import what, and why. A trailing "/..." means all below.
var rules = []struct{ from, not, why string }{
	{"talaria/api", "talaria/...", "the words on the wire depend on nothing of ours"},
	{"talaria/artifacts", "talaria/...", "artifacts knows no session and no SQL"},
	{"talaria/migrations", "talaria/...", "the schema is data"},
	{"talaria/web", "talaria/...", "the page is data"},
	{"talaria/sdk", "talaria/...", "the client libraries are data"},
	{"talaria/kernel/runner", "talaria/...", "the embedded Python is data"},
	{"talaria/store", "talaria/kernel/...", "the store keeps rows, and knows no kernel"},
	{"talaria/store", "talaria/session", "the store is below the session"},
	{"talaria/kernel/...", "talaria/session", "a kernel knows no session"},
	{"talaria/kernel/...", "talaria/store", "a kernel knows no database"},
	{"talaria/kernel/...", "talaria/server", "a kernel knows no network"},
	{"talaria/kernel", "talaria/kernel/record", "the contract of backends is below all else of kernels"},
	{"talaria/kernel", "talaria/kernel/command", "the contract of backends is below all else of kernels"},
	{"talaria/kernel", "talaria/kernel/host", "the contract of backends is below all else of kernels"},
	{"talaria/kernel", "talaria/kernel/sandbox", "backends import the contract, not the other way round"},
	{"talaria/kernel", "talaria/kernel/landlock", "backends import the contract, not the other way round"},
	{"talaria/kernel", "talaria/kernel/disk", "backends import the contract, not the other way round"},
	{"talaria/kernel/record", "talaria/kernel/command", "records are below commands"},
	{"talaria/kernel/record", "talaria/kernel/host", "records know no host"},
	{"talaria/kernel/command", "talaria/kernel/host", "commands know no host"},
	{"talaria/kernel/frame", "talaria/kernel/host", "frames know no host"},
	{"talaria/kernel/frame", "talaria/kernel/spool", "frames are not kept"},
	{"talaria/kernel/spool", "talaria/kernel/frame", "what is kept is records"},
	{"talaria/kernel/spool", "talaria/kernel/command", "what is kept is records"},
	{"talaria/kernel/host", "talaria/kernel/sandbox", "which backend it is is wired in cmd/talaria"},
	{"talaria/kernel/host", "talaria/kernel/landlock", "which backend it is is wired in cmd/talaria"},
	{"talaria/kernel/host", "talaria/kernel/link", "a host does not know who asks it"},
	{"talaria/kernel/sandbox", "talaria/kernel/host", "backends know the contract, not who uses it"},
	{"talaria/kernel/landlock", "talaria/kernel/host", "backends know the contract, not who uses it"},
	{"talaria/kernel/disk", "talaria/kernel/host", "backends know the contract, not who uses it"},
	{"talaria/kernel/sandbox", "talaria/kernel/namespace", "the engine knows no tier"},
	{"talaria/kernel/sandbox", "talaria/kernel/landlock", "the engine knows no tier"},
	{"talaria/kernel/namespace", "talaria/kernel/landlock", "tiers stand side by side"},
	{"talaria/kernel/landlock", "talaria/kernel/namespace", "tiers stand side by side"},
	{"talaria/kernel/procfs", "talaria/...", "reading processes stands alone"},
	{"talaria/kernel/trace", "talaria/...", "the trace of steps stands alone"},
	{"talaria/kernel/cgroup", "talaria/kernel/sandbox", "control groups know no sandbox"},
	{"talaria/kernel/workspace", "talaria/kernel", "host-side file access stands alone"},
	{"talaria/session/access", "talaria/session", "who may visit a session is in the store"},
	{"talaria/session/access", "talaria/kernel/...", "links and tokens know no kernel"},
	{"talaria/session/files", "talaria/session", "the files of a workspace know no session"},
	{"talaria/session/files", "talaria/store", "what the log knows of a workspace is the session's"},
	{"talaria/session/notebook", "talaria/session", "a notebook knows executions, and no session"},
	{"talaria/session/notebook", "talaria/kernel/...", "a notebook shows what was logged, and needs no kernel"},
	{"talaria/session/packages", "talaria/session", "an installation knows what it needs of its session, and no session"},
	{"talaria/session/packages", "talaria/store", "what was installed is in folders, and not in the database"},
	{"talaria/session/packages", "talaria/kernel/host", "installers run on any host"},
	{"talaria/session/processes", "talaria/session", "the processes beside an interpreter know only the kernel they run with"},
	{"talaria/session/processes", "talaria/store", "processes end with their kernel, and are in no database"},
	{"talaria/session/transcript", "talaria/session", "the text of an execution knows no session"},
	{"talaria/session/transcript", "talaria/kernel/...", "the text of an execution knows no kernel"},
	{"talaria/session/index", "talaria/session", "the package index knows no session"},
	{"talaria/session/index", "talaria/store", "the package index knows no database"},
	{"talaria/session/index", "talaria/kernel", "the package index knows no kernel, only what is public"},
	{"talaria/session/index/indextest", "talaria/...", "the index of tests is for all of them"},
	{"talaria/session/remote", "talaria/session", "what providers share knows no session"},
	{"talaria/session/remote", "talaria/kernel/...", "what providers share knows no kernel"},
	{"talaria/session/webhook", "talaria/session", "a provider knows no session"},
	{"talaria/session/webhook", "talaria/store", "a provider knows no database"},
	{"talaria/session/webhook", "talaria/kernel", "a provider knows no kernel, only what is public"},
	{"talaria/session/mcpclient", "talaria/session", "a provider knows no session"},
	{"talaria/session/mcpclient", "talaria/store", "a provider knows no database"},
	{"talaria/session/mcpclient", "talaria/kernel", "a provider knows no kernel, only processes"},
	{"talaria/session", "talaria/server", "the session is below every transport"},
	{"talaria/session", "talaria/kernel/namespace", "which backend it is is wired in cmd/talaria"},
	{"talaria/session", "talaria/kernel/landlock", "which backend it is is wired in cmd/talaria"},
	{"talaria/server", "talaria/kernel/...", "a transport knows sessions, and no kernel"},
	{"talaria/server/transfer", "talaria/session/...", "bodies know no session"},
	{"talaria/server/transfer", "talaria/server/...", "what transports share knows none of them"},
	{"talaria/server/e2b", "talaria/kernel/...", "a transport knows sessions, and no kernel"},
	{"talaria/server/e2b", "talaria/store", "a transport knows sessions, and no database"},
	{"talaria/server/jupyter", "talaria/kernel/...", "a transport knows sessions, and no kernel"},
	{"talaria/server/jupyter", "talaria/store", "a transport knows sessions, and no database"},
	{"talaria/server/execd", "talaria/kernel/...", "a transport knows sessions, and no kernel"},
	{"talaria/server/execd", "talaria/store", "a transport knows sessions, and no database"},
	{"talaria/server/hermes", "talaria/kernel/...", "a transport knows sessions, and no kernel"},
	{"talaria/server/hermes", "talaria/store", "a transport knows sessions, and no database"},
	{"talaria/server/librechat", "talaria/kernel/...", "a transport knows sessions, and no kernel"},
	{"talaria/server/librechat", "talaria/store", "a transport knows sessions, and no database"},
	{"talaria/server/engine", "talaria/kernel/...", "a transport knows runs, and no kernel"},
	{"talaria/server/engine", "talaria/session/...", "one-shot programs have no session"},
	{"talaria/batch", "talaria/server/...", "transports know batches, not the other way round"},
	{"talaria/batch", "talaria/kernel/...", "a batch knows sessions, and no kernel"},
	{"talaria/session", "talaria/batch", "a batch is above sessions"},
	{"talaria/run", "talaria/session/...", "one-shot programs have no session"},
	{"talaria/run", "talaria/server/...", "transports know runs, not the other way round"},
	{"talaria/kernel/oneshot", "talaria/kernel/host", "the contract does not know who carries it out"},
	{"talaria/server/mcp", "talaria/kernel/...", "a transport knows sessions, and no kernel"},
	{"talaria/session/settings", "talaria/session", "settings are a function of a request and the operator's bounds"},
	{"talaria/session/settings", "talaria/store", "settings are a function of a request and the operator's bounds"},
	{"talaria/session/settings", "talaria/kernel/host", "settings are checked before there is a kernel"},
	{"talaria/session/toolspec", "talaria/session", "the description of a tool knows no session"},
	{"talaria/session/toolspec", "talaria/kernel/...", "the description of a tool knows no kernel"},
	{"talaria/session/toolspec", "talaria/store", "the description of a tool knows no database"},
	{"talaria/session/schema", "talaria/...", "schemas stand alone"},
	{"talaria/session/hazard", "talaria/...", "patterns in code stand alone"},
	{"talaria/gateway/render", "talaria/artifacts", "a rendering is a function of an execution"},
	{"talaria/gateway/render", "talaria/client", "a rendering is a function of an execution"},
	{"talaria/gateway/render", "talaria/kernel/...", "a rendering is a function of an execution"},
	{"talaria/gateway/render", "talaria/server", "a rendering is a function of an execution"},
	{"talaria/gateway/render", "talaria/session", "a rendering is a function of an execution"},
	{"talaria/gateway/render", "talaria/store", "a rendering is a function of an execution"},
	{"talaria/gateway/gatewaytest", "talaria/...", "the fakes check the gateway with figures of their own"},
	{"talaria/gateway/...", "talaria/gateway/gatewaytest", "the program does not contain its fakes"},
	{"talaria/cmd/...", "talaria/gateway/gatewaytest", "the program does not contain its fakes"},
	{"talaria/server", "talaria/gateway/gatewaytest", "the program does not contain its fakes"},
	{"talaria/gateway", "talaria/server", "a gateway uses the server as every client does"},
	{"talaria/gateway", "talaria/session", "a gateway uses the server as every client does"},
	{"talaria/gateway", "talaria/kernel/...", "a gateway uses the server as every client does"},
	{"talaria/gateway", "talaria/store", "a gateway has a database of its own"},
	{"talaria/gateway", "talaria/gateway/telegram", "the core knows no platform"},
	{"talaria/gateway/assistant", "talaria/client", "the assistant talks to a model only"},
	{"talaria/gateway/assistant", "talaria/gateway", "the assistant talks to a model only"},
	{"talaria/gateway/assistant", "talaria/store/...", "the assistant talks to a model only"},
	{"talaria/gateway", "talaria/gateway/slack", "the core knows no platform"},
	{"talaria/gateway/slack", "talaria/client", "a platform knows no server"},
	{"talaria/gateway/slack", "talaria/store/...", "a platform keeps nothing"},
	{"talaria/gateway/telegram", "talaria/client", "a platform knows no server"},
	{"talaria/gateway/telegram", "talaria/store/...", "a platform keeps nothing"},
	{"talaria/store/chats", "talaria/store", "the databases know nothing of each other"},
	{"talaria/client", "talaria/session", "a client knows the wire only"},
	{"talaria/client", "talaria/server", "a client knows the wire only"},
	{"talaria/client", "talaria/kernel/...", "a client knows the wire only"},
	{"talaria/client", "talaria/store", "a client knows the wire only"},
	{"talaria/client/zmqkernel", "talaria/session", "a client knows the wire only"},
	{"talaria/client/zmqkernel", "talaria/server/...", "a client knows the wire only"},
	{"talaria/client/zmqkernel", "talaria/kernel/...", "a client knows the wire only"},
	{"talaria/client", "talaria/client/zmqkernel", "programs that use a session need no sockets of Jupyter"},
	{"talaria/kernel/machine", "talaria/...", "the machine's figures stand alone"},
	{"talaria/battery", "talaria/server", "the battery knows the wire only"},
	{"talaria/battery", "talaria/session", "the battery knows the wire only"},
	{"talaria/battery", "talaria/kernel/...", "the battery knows the wire only"},
	{"talaria/battery", "talaria/store", "the battery knows the wire only"},
	{"talaria/cmd/...", "talaria/e2e/...", "the program does not contain its tests"},
	{"talaria/e2e/...", "talaria/server", "end-to-end tests know the wire only"},
	{"talaria/e2e/...", "talaria/session", "end-to-end tests know the wire only"},
	{"talaria/e2e/...", "talaria/kernel/...", "end-to-end tests know the wire only"},
	{"talaria/e2e/...", "talaria/store", "end-to-end tests know the wire only"},
}

// alone names the packages that may import a library, tests included.
var alone = []struct {
	library string
	only    []string
}{
	{"github.com/mattn/go-sqlite3", []string{"talaria/store"}},
	{"database/sql", []string{"talaria/store"}},
	{"github.com/pressly/goose/v3", []string{"talaria/store"}},
	{"github.com/gofrs/flock", []string{"talaria/store"}},
	{"github.com/gin-gonic/gin", []string{"talaria/server"}},
	{"github.com/danielgtaylor/huma/v2", []string{"talaria/server"}},
	{"github.com/prometheus/client_golang", []string{"talaria/server"}},
	{"github.com/gorilla/websocket", []string{"talaria/server", "talaria/gateway/gatewaytest", "talaria/client", "talaria/e2e"}},
	{"github.com/go-telegram/bot", []string{"talaria/gateway/telegram"}},
	{"github.com/slack-go/slack", []string{"talaria/gateway/slack"}},
	{"github.com/go-zeromq/zmq4", []string{"talaria/client/zmqkernel"}},
	{"github.com/creack/pty", []string{"talaria/kernel", "talaria/e2e"}},
	{"github.com/santhosh-tekuri/jsonschema/v6", []string{"talaria/session/schema"}},
	{"github.com/peterh/liner", []string{"talaria/cmd/talaria"}},
	{"github.com/shirou/gopsutil", []string{"talaria/kernel/machine"}},
	{"gvisor.dev/gvisor", []string{"talaria/kernel/network"}},
	{"golang.org/x/net", []string{"talaria/kernel/network", "talaria/session/index", "talaria/e2e"}},
	{"github.com/modelcontextprotocol/go-sdk", []string{"talaria/session/mcpclient", "talaria/server/mcp", "talaria/e2e"}},
	{"golang.org/x/sys/unix", []string{"talaria/kernel", "talaria/battery", "talaria/e2e"}},
	{"github.com/spf13/cobra", []string{"talaria/cmd/talaria"}},
	{"go.yaml.in/yaml/v3", []string{"talaria/cmd/talaria"}},
}

type listed struct {
	ImportPath                         string
	Imports, TestImports, XTestImports []string
	Deps                               []string
}

func packages(t *testing.T) []listed {
	t.Helper()
	cmd := exec.Command("go", "list", "-json=ImportPath,Imports,TestImports,XTestImports,Deps", "talaria/...")
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	var all []listed
	for d := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p listed
		if err := d.Decode(&p); err == io.EOF {
			return all
		} else if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
}

func matches(pattern, path string) bool {
	if base, below := strings.CutSuffix(pattern, "/..."); below {
		return path == base || strings.HasPrefix(path, base+"/")
	}
	return path == pattern
}

func TestImportsPointOneWay(t *testing.T) {
	all := packages(t)
	if len(all) < 12 {
		t.Fatalf("only %d packages are listed", len(all))
	}
	for _, p := range all {
		for _, r := range rules {
			if !matches(r.from, p.ImportPath) {
				continue
			}
			imports := p.Imports
			if matches("talaria/e2e/...", p.ImportPath) { // the tests are all that is there
				imports = slices.Concat(imports, p.TestImports, p.XTestImports)
			}
			for _, imported := range imports {
				if matches(r.not, imported) && !(strings.HasSuffix(r.not, "/...") && matches(r.from, imported)) {
					t.Errorf("%s imports %s: %s", p.ImportPath, imported, r.why)
				}
			}
		}
	}
}

func TestLibrariesStayBehindOnePackage(t *testing.T) {
	for _, p := range packages(t) {
		imports := append(append(p.Imports, p.TestImports...), p.XTestImports...)
		for _, a := range alone {
			for _, imported := range imports {
				if imported != a.library && !strings.HasPrefix(imported, a.library+"/") {
					continue
				}
				allowed := false
				for _, only := range a.only {
					allowed = allowed || matches(only+"/...", p.ImportPath)
				}
				if !allowed {
					t.Errorf("%s imports %s, which only %s may", p.ImportPath, imported, strings.Join(a.only, ", "))
				}
			}
		}
		if p.ImportPath == "talaria/cmd/talaria" {
			for _, dep := range p.Deps {
				if strings.HasPrefix(dep, "modernc.org/") {
					t.Errorf("the binary links %s, a second SQLite", dep)
				}
			}
		}
	}
}
