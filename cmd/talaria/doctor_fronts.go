package main

import (
	"net/url"
	"regexp"
	"strings"

	"talaria/kernel"
)

// frontFindings have, for each front, the line that its clients are configured with.
func (c config) frontFindings() []kernel.Finding {
	var findings []kernel.Finding
	c = c.asRunning()
	for _, f := range c.fronts() {
		finding := kernel.Finding{Name: f.title, OK: true}
		switch {
		case f.Enabled:
			finding.Detail = c.clientSetting(f)
		case f.name == "jupyter" && !c.Jupyter:
			finding.Detail = "disabled by jupyter: false"
		default:
			finding.Detail = "disabled by fronts." + f.name + ".enabled: false"
		}
		findings = append(findings, finding)
	}
	return append(findings, c.hermesFinding())
}

// asRunning has the address of the server that has the state directory open, if there is one: a flag may have set another than the
// configuration has.
func (c config) asRunning() config {
	if address, err := runningAt(c.StateDir); err == nil {
		if u, err := url.Parse(address); err == nil && u.Host != "" {
			c.Addr = u.Host
		}
	}
	return c
}

// clientSetting is what a client of the front is given to find this server and to authenticate. It has no token: what doctor
// prints goes into logs and reports.
func (c config) clientSetting(f namedFront) string {
	base, token := f.base(c), `"$(`+c.tokenCommand("show")+`)"`
	switch f.name {
	case "jupyter":
		return "run this before the client: export JUPYTER_GATEWAY_URL=" + base + " JUPYTER_GATEWAY_AUTH_TOKEN=" + token
	case "e2b":
		key := `"$(` + c.tokenCommand("create --owner agent --form e2b") + `)"`
		return "run this before the client: export E2B_API_URL=" + base + " E2B_SANDBOX_URL=" + base + " E2B_API_KEY=" + key
	case "execd":
		return "give a client the base URL " + base + ` and the header "X-EXECD-ACCESS-TOKEN: $(` + c.tokenCommand("show") + `)"`
	case "librechat":
		setting := "add this to LibreChat's .env: LIBRECHAT_CODE_BASEURL=" + base
		if c.Fronts.LibreChat.JWTKeys != "" {
			return setting // LibreChat signs tokens
		}
		return setting + " and LIBRECHAT_CODE_API_KEY=TOKEN, with the token that this prints: " + c.tokenCommand("create --owner librechat")
	}
	return "give a client the base URL " + base + ` and the header "Authorization: Bearer $(` + c.tokenCommand("show") + `)"`
}

// tokenCommand is a line of a shell that prints a token of this state directory.
func (c config) tokenCommand(args string) string {
	line := program + " token " + args
	if c.StateDir != defaultStateDir() {
		line += " --state-dir " + shellWord(c.StateDir)
	}
	return line
}

var plainWord = regexp.MustCompile(`^[A-Za-z0-9_./:@%+=-]+$`)

// shellWord quotes a word for a shell where that is necessary.
func shellWord(word string) string {
	if plainWord.MatchString(word) {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
