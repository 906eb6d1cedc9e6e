package main

import (
	"path/filepath"
	"strings"
	"testing"
)

func TestTheSettingOfAFrontFollowsTheConfiguration(t *testing.T) {
	startAs(t, "bin/other")
	c := defaults()
	c.StateDir = "/srv/two words"
	c.Jupyter, c.Fronts.Engine.Enabled = false, false
	c.Fronts.E2B.Addr, c.Fronts.LibreChat.JWTKeys = "127.0.0.1:49999", "keys.pem"
	printed := map[string]string{}
	for _, f := range c.frontFindings() {
		printed[f.Name] = f.Detail
	}
	for front, want := range map[string]string{
		"Jupyter clients":         "disabled by jupyter: false",
		"one-shot engine clients": "disabled by fronts.engine.enabled: false",
		"E2B clients": "run this before the client: export E2B_API_URL=http://127.0.0.1:49999 E2B_SANDBOX_URL=http://127.0.0.1:49999 " +
			`E2B_API_KEY="$(bin/other token create --owner agent --form e2b --state-dir '/srv/two words')"`,
		"OpenSandbox's execd clients": "give a client the base URL http://127.0.0.1:8765/execd and the header " +
			`"X-EXECD-ACCESS-TOKEN: $(bin/other token show --state-dir '/srv/two words')"`,
		"LibreChat": "add this to LibreChat's .env: LIBRECHAT_CODE_BASEURL=http://127.0.0.1:8765/librechat/v1", // it signs its tokens
	} {
		if printed[front] != want {
			t.Errorf("%s: doctor prints\n%s, want\n%s", front, printed[front], want)
		}
	}
}

func TestDoctorPrintsTheAddressOfTheServerThatRuns(t *testing.T) {
	c := defaults()
	c.StateDir = served(t, "token")
	write(t, filepath.Join(c.StateDir, "url"), "http://127.0.0.1:18765\n")
	printed := func() string {
		for _, f := range c.frontFindings() {
			if f.Name == "one-shot engine clients" {
				return f.Detail
			}
		}
		return ""
	}
	if got := printed(); !strings.Contains(got, " http://127.0.0.1:18765/engine ") {
		t.Error(got)
	}
	c.StateDir = t.TempDir()
	write(t, filepath.Join(c.StateDir, "url"), "http://127.0.0.1:18765\n") // of a server that was killed
	c.Addr = "127.0.0.1:9"
	if got := printed(); !strings.Contains(got, " http://127.0.0.1:9/engine ") {
		t.Error(got)
	}
}

func TestDoctorNamesTheLanguagesAndWhatToInstall(t *testing.T) {
	t.Setenv("PATH", "/nowhere") // languages are looked for in /usr, whatever the caller's PATH is
	f := toolchainFinding("/usr/bin/python3")
	found, missing, some := strings.Cut(f.Detail, "; not installed: ")
	if !f.OK || !strings.HasPrefix(found, "python, ") {
		t.Errorf("the finding is %+v", f)
	}
	for _, language := range []string{"python", "cpp", "c", "javascript", "java", "go", "rust", "bash"} {
		if !strings.Contains(f.Detail, language) {
			t.Errorf("%s is not in %q", language, f.Detail)
		}
	}
	if some && !strings.Contains(missing, "(apt-get install ") {
		t.Errorf("what is missing comes without its packages: %q", missing)
	}
}
