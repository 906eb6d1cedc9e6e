package webhook_test

import (
	"bytes"
	"errors"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"talaria/session/webhook"
)

// The example of the Standard Webhooks specification and its libraries.
const (
	exampleSecret    = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	exampleID        = "msg_p5jXN8AQM9LWM0D4loKWxJek"
	exampleTimestamp = 1614265330
	exampleBody      = `{"test": 2432232314}`
	exampleSignature = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
)

func exampleHeader() http.Header {
	h := http.Header{}
	h.Set("webhook-id", exampleID)
	h.Set("webhook-timestamp", strconv.Itoa(exampleTimestamp))
	h.Set("webhook-signature", exampleSignature)
	return h
}

func parseSecret(t *testing.T, text string) webhook.Secret {
	t.Helper()
	list, err := webhook.ParseSecrets(text)
	if err != nil {
		t.Fatal(err)
	}
	return list[0]
}

func TestVerifyAcceptsTheExampleOfTheSpecificationAndNothingElse(t *testing.T) {
	secret, now := parseSecret(t, exampleSecret), time.Unix(exampleTimestamp, 0)
	if err := webhook.Verify(secret, exampleHeader(), []byte(exampleBody), now); err != nil {
		t.Errorf("the example: %v", err)
	}
	several := exampleHeader()
	several.Set("webhook-signature", "v1,AAAA v2,"+exampleSignature[3:]+" "+exampleSignature)
	if err := webhook.Verify(secret, several, []byte(exampleBody), now); err != nil {
		t.Errorf("one of several signatures: %v", err)
	}
	for what, change := range map[string]struct {
		header func(http.Header)
		body   string
		after  time.Duration
	}{
		"another body":       {body: exampleBody + " "},
		"another id":         {header: func(h http.Header) { h.Set("webhook-id", "other") }},
		"another time stamp": {header: func(h http.Header) { h.Set("webhook-timestamp", strconv.Itoa(exampleTimestamp+1)) }},
		"no time stamp":      {header: func(h http.Header) { h.Del("webhook-timestamp") }},
		"no signature":       {header: func(h http.Header) { h.Del("webhook-signature") }},
		"another version":    {header: func(h http.Header) { h.Set("webhook-signature", "v2,"+exampleSignature[3:]) }},
		"too old":            {after: webhook.Tolerance + time.Second},
		"from the future":    {after: -webhook.Tolerance - time.Second},
	} {
		h, body := exampleHeader(), exampleBody
		if change.header != nil {
			change.header(h)
		}
		if change.body != "" {
			body = change.body
		}
		if err := webhook.Verify(secret, h, []byte(body), now.Add(change.after)); !errors.Is(err, webhook.ErrSignature) {
			t.Errorf("%s: %v", what, err)
		}
	}
	other := parseSecret(t, "whsec_"+strings.Repeat("A", 32))
	if err := webhook.Verify(other, exampleHeader(), []byte(exampleBody), now); !errors.Is(err, webhook.ErrSignature) {
		t.Errorf("another secret: %v", err)
	}
}

func TestParseSecretsTakesOneALineAndNamesWhatIsWrong(t *testing.T) {
	list, err := webhook.ParseSecrets(exampleSecret + "\n\n" + "whsec_" + strings.Repeat("A", 32) + "\n")
	if err != nil || len(list) != 2 {
		t.Errorf("two lines are %d secrets, %v", len(list), err)
	}
	if text := list[0].String(); strings.Contains(text, "MfKQ") {
		t.Errorf("a secret prints as %s", text)
	}
	for _, text := range []string{"", "\n", "plain", "whsec_", "whsec_AAAA", "whsec_!", strings.Repeat(exampleSecret+"\n", 5)} {
		if _, err := webhook.ParseSecrets(text); err == nil {
			t.Errorf("%q is accepted", text)
		} else if strings.Contains(err.Error(), "plain") {
			t.Errorf("the error repeats the text: %v", err)
		}
	}
}

// The lines that docs/tools-providers.md gives for other languages run against the same example.
func TestTheDocumentedVerifiersAcceptTheExampleAndRefuseAnotherBody(t *testing.T) {
	page, err := os.ReadFile("../../docs/tools-providers.md")
	if err != nil {
		t.Fatal(err)
	}
	for language, c := range map[string]struct{ program, file, call string }{
		"python": {"python3", "verify.py", `
import sys
headers = {"webhook-id": "` + exampleID + `", "webhook-timestamp": "` + strconv.Itoa(exampleTimestamp) + `", "webhook-signature": "` + exampleSignature + `"}
print(verify("` + exampleSecret + `", headers, sys.argv[1].encode(), now=int(sys.argv[2])))
`},
		"javascript": {"node", "verify.mjs", `
const headers = {"webhook-id": "` + exampleID + `", "webhook-timestamp": "` + strconv.Itoa(exampleTimestamp) + `", "webhook-signature": "` + exampleSignature + `"};
console.log(verify("` + exampleSecret + `", headers, Buffer.from(process.argv[2]), Number(process.argv[3])));
`},
	} {
		t.Run(language, func(t *testing.T) {
			if _, err := exec.LookPath(c.program); err != nil {
				t.Skipf("this machine has no %s", c.program)
			}
			blocks := regexp.MustCompile("(?s)```"+language+"\n(.*?)\n```").FindAllSubmatch(page, -1)
			i := slices.IndexFunc(blocks, func(b [][]byte) bool { return bytes.Contains(b[1], []byte("verify(")) })
			if i < 0 {
				t.Fatalf("the page has no verifier in %s", language)
			}
			file := filepath.Join(t.TempDir(), c.file)
			if err := os.WriteFile(file, []byte(string(blocks[i][1])+c.call), 0o600); err != nil {
				t.Fatal(err)
			}
			for _, run := range []struct {
				body, want string
				now        int
			}{
				{exampleBody, "true", exampleTimestamp},
				{exampleBody + " ", "false", exampleTimestamp},
				{exampleBody, "false", exampleTimestamp + 301},
			} {
				out, err := exec.Command(c.program, file, run.body, strconv.Itoa(run.now)).CombinedOutput()
				if got := strings.ToLower(strings.TrimSpace(string(out))); err != nil || got != run.want {
					t.Errorf("verify of %q at %d is %q, %v, want %s", run.body, run.now, got, err, run.want)
				}
			}
		})
	}
}
