package e2e

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// TestDoctorPrintsTheSettingOfEachFront pastes what doctor prints into a shell, and calls the front with it as its clients do.
func TestDoctorPrintsTheSettingOfEachFront(t *testing.T) {
	t.Parallel()
	s := start(t, options{})
	doctor := s.command(within(t), "doctor", "--json", "--state-dir", s.StateDir)
	doctor.Env = append(doctor.Env, "TALARIA_ADDR="+strings.TrimPrefix(s.URL, "http://"))
	out, _ := doctor.Output() // its status is about the machine
	printed := map[string]string{}
	for _, f := range decode[struct {
		Findings []struct{ Name, Detail string }
	}](t, string(out)).Findings {
		printed[f.Name] = f.Detail
	}
	for _, c := range []struct{ front, before, use, want string }{
		{"Jupyter clients", "run this before the client: ",
			`$CURL -X POST "$JUPYTER_GATEWAY_URL/api/kernels" -H "Authorization: token $JUPYTER_GATEWAY_AUTH_TOKEN"`, `"execution_state"`},
		{"E2B clients", "run this before the client: ",
			`test "$E2B_SANDBOX_URL" = "$E2B_API_URL"; $CURL -X POST "$E2B_API_URL/v2/sandboxes" -H "X-API-KEY: $E2B_API_KEY" -d '{}'`, `"sandboxID"`},
		{"one-shot engine clients", "give a client the base URL ", `$CURL "$BASE/execute/" -H "$HEADER" -d '{"language":"bash","code":"echo 42"}'`, `"output":"42\n"`},
		{"OpenSandbox's execd clients", "give a client the base URL ", `$CURL "$BASE/code" -H "$HEADER" -d '{"code":"6 * 7","context":{"language":"python"}}'`, `"text":"42"`},
		{"LibreChat", "put this into LibreChat's .env: ",
			`$CURL "$LIBRECHAT_CODE_BASEURL/exec" -H "X-API-Key: $LIBRECHAT_CODE_API_KEY" -d '{"lang":"py","code":"print(42)"}'`, `"stdout":"42\n"`},
	} {
		line, ok := strings.CutPrefix(printed[c.front], c.before)
		if !ok {
			t.Errorf("%s: doctor prints %q", c.front, printed[c.front])
			continue
		}
		if base, header, ok := strings.Cut(line, " and the header "); ok {
			line = "BASE=" + base + " HEADER=" + header
		}
		if variable, rest, ok := strings.Cut(line, " and LIBRECHAT_CODE_API_KEY=TOKEN, with the token that this prints: "); ok {
			line = variable + "\nLIBRECHAT_CODE_API_KEY=$(" + rest + ")"
		}
		shell := exec.CommandContext(within(t), "sh", "-ec", `CURL="curl -sf -H Content-Type:application/json"`+"\n"+line+"\n"+c.use)
		shell.Env = append(os.Environ(), s.command(within(t)).Env...)
		shell.Dir, shell.SysProcAttr = s.home, s.command(within(t)).SysProcAttr
		if out, err := shell.Output(); err != nil || !strings.Contains(string(out), c.want) {
			t.Errorf("%s: %s\nanswers %s (%v), without %s", c.front, line, out, err, c.want)
		}
	}
	if got := printed["languages of /v1/run"]; !strings.HasPrefix(got, "python, ") || !strings.Contains(got, "bash") {
		t.Errorf("doctor reports the languages %q", got)
	}
}
