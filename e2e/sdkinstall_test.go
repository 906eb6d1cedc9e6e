package e2e

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"talaria/api"
	"talaria/sdk"
)

// prints runs a command and compares what it prints.
func prints(t *testing.T, cmd *exec.Cmd, want string) {
	t.Helper()
	out, err := cmd.CombinedOutput()
	if err != nil || want != "" && string(out) != want {
		t.Fatalf("%s: %v\n%s", cmd, err, out)
	}
}

// TestPipInstallsTheClientFromTheServer needs no package index, and runs what was installed.
func TestPipInstallsTheClientFromTheServer(t *testing.T) {
	t.Parallel()
	s := start(t, options{})
	target := t.TempDir()
	prints(t, exec.CommandContext(within(t), "/usr/bin/python3", "-m", "pip", "install", "--quiet", "--no-index", "--no-cache-dir",
		"--root-user-action=ignore", "--target", target, s.URL+"/sdk/"+sdk.Wheel), "")
	program := exec.CommandContext(within(t), "/usr/bin/python3", "-c", `
import os
from talaria import Talaria
with Talaria(os.environ["TALARIA_URL"], os.environ["TALARIA_TOKEN"]).session() as session:
    session.tool(len, name="length", parameters={"type": "object"})
    print(session.run("from hermes_tools import length\n6 * 7").text)
`)
	program.Env = append(os.Environ(), "PYTHONPATH="+target, "TALARIA_URL="+s.URL, "TALARIA_TOKEN="+s.Token)
	prints(t, program, "42\n")
}

// TestNpmInstallsTheClientFromTheServer begins with an empty folder and a registry that does not answer.
func TestNpmInstallsTheClientFromTheServer(t *testing.T) {
	t.Parallel()
	needsNode(t)
	s := start(t, options{})
	project := t.TempDir()
	install := exec.CommandContext(within(t), "npm", "install", "--no-audit", "--no-fund", "--fetch-retries=0",
		"--registry=http://127.0.0.1:9", "--cache="+t.TempDir(), s.URL+"/sdk/"+sdk.Tarball)
	install.Dir = project
	prints(t, install, "")
	file := filepath.Join(project, "program.mjs")
	if err := os.WriteFile(file, []byte(`
import { Talaria } from "talaria";
const { TALARIA_URL: url, TALARIA_TOKEN: token } = process.env;
const session = await new Talaria({ url, token }).session();
await session.tool({ name: "double", run: ({ n }) => 2 * n });
console.log((await session.run("from hermes_tools import double\ndouble(n=21)")).text);
await session.close();
`), 0o644); err != nil {
		t.Fatal(err)
	}
	program := node(within(t), "--no-warnings", file)
	program.Env = append(os.Environ(), "TALARIA_URL="+s.URL, "TALARIA_TOKEN="+s.Token)
	prints(t, program, "42\n")
}

// foreignPage imports the client from the server. On localhost, an origin that the server does not know, that is all; on
// 127.0.0.1 it gets a token for one session from its own server, as docs/sdk.md says, and provides a tool.
const foreignPage = `<!doctype html><script type="module">
const report = (text) => fetch("/done", { method: "POST", body: text });
async function use(Talaria) {
  const { id, token } = await (await fetch("/token")).json();
  const session = await new Talaria({ url: "%[1]s", token }).session(id);
  await session.tool({ name: "agent", run: () => navigator.userAgent });
  const execution = await session.run("from hermes_tools import agent\nprint('Chrome' in agent())");
  await session.close();
  return execution.text;
}
try {
  const { Talaria } = await import("%[1]s/sdk/talaria.js");
  if (location.hostname === "localhost") {
    await report(typeof Talaria);
    location.hostname = "127.0.0.1";
  } else {
    await report(await use(Talaria));
  }
} catch (e) { await report(String(e)); }
</script>`

func TestAPageOfAnotherOriginUsesTheClient(t *testing.T) {
	t.Parallel()
	chromium, err := exec.LookPath(cmp.Or(os.Getenv("CHROMIUM"), "chromium"))
	if err != nil {
		t.Skip("SKIP: chromium is not installed")
	}
	var s *Server
	var id string
	var made api.SessionToken
	said := make(chan string, 2)
	elsewhere := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/token":
			_ = json.NewEncoder(w).Encode(map[string]string{"id": id, "token": made.Token})
			return
		case r.Method != http.MethodPost:
			w.Header().Set("Content-Type", "text/html")
			fmt.Fprintf(w, foreignPage, s.URL)
			return
		}
		text, _ := io.ReadAll(r.Body)
		said <- string(text)
	}))
	defer elsewhere.Close()
	s = start(t, options{config: "origins: [" + elsewhere.URL + "]\n"})
	ctx := within(t)
	id = session(t, s.Client(), api.SessionRequest{})
	made, err = s.Client().CreateToken(ctx, id, api.SessionTokenRequest{Rights: []api.Right{api.RightRun}})
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(ctx, chromium, "--headless", "--no-sandbox", "--no-first-run", "--disable-background-networking",
		"--disable-component-update", "--disable-sync", "--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1 , EXCLUDE localhost",
		"--user-data-dir="+t.TempDir(), strings.Replace(elsewhere.URL, "127.0.0.1", "localhost", 1))
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // a browser is several processes
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		_ = cmd.Wait()
	}()
	for _, want := range []string{"function", "True\n"} {
		select {
		case got := <-said:
			if got != want {
				t.Fatalf("the page says %q, want %q", got, want)
			}
		case <-ctx.Done():
			t.Fatalf("the page does not say %q", want)
		}
	}
}
