package webhook_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"talaria/api"
	"talaria/session/remote"
	"talaria/session/webhook"
)

var call = remote.Call{ID: "call-1", SessionID: "s", ExecutionID: "e", Tool: "weather", Arguments: api.Raw(`{"city":"Bern"}`)}

// receiver is a webhook's server, and the number of requests that it got.
type receiver struct {
	*httptest.Server
	requests atomic.Int64
}

func receive(t *testing.T, handler http.HandlerFunc) *receiver {
	t.Helper()
	r := &receiver{}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		r.requests.Add(1)
		handler(w, req)
	}))
	t.Cleanup(r.Close)
	return r
}

func caller(t *testing.T, prefixes ...string) *webhook.Caller {
	t.Helper()
	c, err := webhook.New(webhook.Config{Prefixes: prefixes, Secrets: []webhook.Secret{parseSecret(t, exampleSecret)}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func answering(status int, header, value, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		if header != "" {
			w.Header().Set(header, value)
		}
		w.WriteHeader(status)
		io.WriteString(w, body)
	}
}

func codeOf(err error) string {
	var failure *remote.Failure
	if errors.As(err, &failure) {
		return failure.Code
	}
	return ""
}

func TestACallIsASignedPostOfTheCall(t *testing.T) {
	deadline := time.Now().Add(time.Minute)
	ctx, cancel := context.WithDeadline(t.Context(), deadline)
	defer cancel()
	type received struct {
		method, path, key, kind, cookie string
		body                            map[string]any
		verified                        error
	}
	got := make(chan received, 1)
	hook := receive(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		one := received{method: r.Method, path: r.URL.String(), key: r.Header.Get("Idempotency-Key"), kind: r.Header.Get("Content-Type"),
			cookie: r.Header.Get("Cookie"), verified: webhook.Verify(parseSecret(t, exampleSecret), r.Header, body, time.Now())}
		json.Unmarshal(body, &one.body)
		got <- one
		http.SetCookie(w, &http.Cookie{Name: "a", Value: "b"})
		io.WriteString(w, `{"result": {"degrees": 21.5}}`)
	})
	c := caller(t, hook.URL+"/tools/")
	for range 2 { // the second one would bring the cookie
		result, err := c.Call(ctx, hook.URL+"/tools/weather?unit=c", call)
		if err != nil || string(result.Value) != `{"degrees": 21.5}` {
			t.Fatalf("the result is %s, %v", result.Value, err)
		}
		one := <-got
		if one.method != "POST" || one.path != "/tools/weather?unit=c" || one.key != "call-1" || one.kind != "application/json" || one.cookie != "" {
			t.Errorf("the request is %+v", one)
		}
		if one.verified != nil {
			t.Error(one.verified)
		}
		if one.body["tool"] != "weather" || one.body["call_id"] != "call-1" || one.body["session_id"] != "s" || one.body["execution_id"] != "e" ||
			one.body["arguments"].(map[string]any)["city"] != "Bern" || one.body["deadline"] != deadline.UTC().Format("2006-01-02T15:04:05.000Z") {
			t.Errorf("the body is %v", one.body)
		}
	}
}

func TestAnAnswerIsAResultOrAFailureWithACode(t *testing.T) {
	for what, c := range map[string]struct {
		handler     http.HandlerFunc
		value, code string
		says        string
	}{
		"null":                        {answering(200, "", "", `{"result": null}`), "null", "", ""},
		"no content":                  {answering(204, "", "", ``), "null", "", ""},
		"an error":                    {answering(200, "", "", `{"error": {"code": "not_found", "message": "no city"}}`), "", "not_found", "no city"},
		"an error with a status":      {answering(404, "", "", `{"error": {"code": "not_found", "message": "no city"}}`), "", "not_found", "no city"},
		"an error without a code":     {answering(200, "", "", `{"error": {"message": "no"}}`), "", "tool_error", "no"},
		"a status":                    {answering(500, "", "", `<h1>oops`), "", "invalid_answer", "500 Internal Server Error"},
		"a status with a result":      {answering(500, "", "", `{"result": 1}`), "", "invalid_answer", "500"},
		"text":                        {answering(200, "", "", `hello`), "", "invalid_answer", `{"result": …}`},
		"both":                        {answering(200, "", "", `{"result": 1, "error": {}}`), "", "invalid_answer", "either"},
		"neither":                     {answering(200, "", "", `{}`), "", "invalid_answer", "either"},
		"another field":               {answering(200, "", "", `{"result": 1, "more": 2}`), "", "invalid_answer", "more"},
		"a redirect":                  {answering(307, "Location", "/elsewhere", ``), "", "invalid_answer", "redirect"},
		"too much":                    {answering(200, "", "", `{"result": "`+strings.Repeat("a", 16<<20)+`"}`), "", "limit", "16777216 bytes"},
		"busy for too long":           {answering(429, "Retry-After", "3600", ``), "", "unavailable", "1h0m0s"},
		"busy until an hour from now": {answering(503, "Retry-After", time.Now().Add(time.Hour).UTC().Format(http.TimeFormat), ``), "", "unavailable", "busy (503)"},
	} {
		t.Run(what, func(t *testing.T) {
			hook := receive(t, c.handler)
			result, err := caller(t, hook.URL).Call(t.Context(), hook.URL+"/x", call)
			if string(result.Value) != c.value || codeOf(err) != c.code {
				t.Errorf("the result is %s, the error %v", result.Value, err)
			}
			if c.says != "" && !strings.Contains(err.Error(), c.says) {
				t.Errorf("the error is %v, without %q", err, c.says)
			}
			if n := hook.requests.Load(); n != 1 {
				t.Errorf("%d requests were sent", n)
			}
		})
	}
}

func TestABusyReceiverIsAskedAgainWithTheSameCall(t *testing.T) {
	keys := make(chan string, 3)
	var hook *receiver
	hook = receive(t, func(w http.ResponseWriter, r *http.Request) {
		keys <- r.Header.Get("Idempotency-Key")
		switch hook.requests.Load() {
		case 1:
			answering(429, "Retry-After", "0", "")(w, r)
		case 2:
			answering(503, "Retry-After", "1", "")(w, r)
		default:
			answering(200, "", "", `{"result": 3}`)(w, r)
		}
	})
	var news []string
	again := call
	again.Progress = func(message string) { news = append(news, message) }
	begun := time.Now()
	result, err := caller(t, hook.URL).Call(t.Context(), hook.URL, again)
	if err != nil || string(result.Value) != "3" {
		t.Fatalf("%s, %v", result.Value, err)
	}
	if time.Since(begun) < time.Second {
		t.Error("Retry-After: 1 was not honoured")
	}
	for range 3 {
		if key := <-keys; key != "call-1" {
			t.Errorf("a request has the key %q", key)
		}
	}
	if len(news) != 2 || !strings.Contains(news[1], "1s") {
		t.Errorf("the caller was told %q", news)
	}
}

// net/http sends a request with the header Idempotency-Key again by itself when a kept connection breaks.
func TestACallWhoseConnectionBreaksIsNotMadeTwice(t *testing.T) {
	var hook *receiver
	hook = receive(t, func(w http.ResponseWriter, r *http.Request) {
		if hook.requests.Load() == 1 {
			answering(200, "", "", `{"result": 1}`)(w, r)
			return
		}
		panic(http.ErrAbortHandler)
	})
	c := caller(t, hook.URL)
	if _, err := c.Call(t.Context(), hook.URL, call); err != nil {
		t.Fatal(err)
	}
	_, err := c.Call(t.Context(), hook.URL, call)
	if codeOf(err) != remote.CodeProviderGone {
		t.Errorf("the error is %v", err)
	}
	if n := hook.requests.Load(); n != 2 {
		t.Errorf("two calls were %d requests", n)
	}
}

func TestACallEndsWithItsContext(t *testing.T) {
	arrived, release := make(chan struct{}, 1), make(chan struct{})
	hook := receive(t, func(_ http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		arrived <- struct{}{}
		select {
		case <-r.Context().Done():
		case <-release:
		}
	})
	defer close(release)
	c := caller(t, hook.URL)
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-arrived; cancel() }()
	if _, err := c.Call(ctx, hook.URL, call); codeOf(err) != remote.CodeCancelled {
		t.Errorf("a cancelled call: %v", err)
	}
	ctx, cancel = context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := c.Call(ctx, hook.URL, call); codeOf(err) != remote.CodeTimeout {
		t.Errorf("a call past its deadline: %v", err)
	}
}

func TestAnAddressThatNoPrefixNamesLiterallyMustBePublic(t *testing.T) {
	hook := receive(t, answering(200, "", "", `{"result": 1}`))
	port := hook.URL[strings.LastIndexByte(hook.URL, ':'):]
	named := "http://localhost" + port
	c := caller(t, named, hook.URL+"/only/")
	_, err := c.Call(t.Context(), named+"/x", call)
	if codeOf(err) != remote.CodeRefusedAddress {
		t.Errorf("a name of a loopback address: %v", err)
	}
	if n := hook.requests.Load(); n != 0 {
		t.Errorf("%d requests arrived", n)
	}
	if _, err := c.Call(t.Context(), hook.URL+"/only/x", call); err != nil {
		t.Errorf("the address that a prefix names: %v", err)
	}
}

func TestACertificateIsVerified(t *testing.T) {
	hook := httptest.NewUnstartedServer(answering(200, "", "", `{"result": 1}`))
	hook.Config.ErrorLog = nil
	hook.StartTLS()
	defer hook.Close()
	_, err := caller(t, hook.URL).Call(t.Context(), hook.URL, call)
	if codeOf(err) != remote.CodeUnavailable || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("a certificate of nobody's: %v", err)
	}
}

func TestAToolMustBeBelowAPrefix(t *testing.T) {
	c := caller(t, "https://hooks.example.com/tools/", "http://10.1.2.3:8080/", "https://[2001:DB8::1]/v6")
	for at, allowed := range map[string]bool{
		"https://hooks.example.com/tools":                              true,
		"https://hooks.example.com/tools/a/b?c=d":                      true,
		"https://HOOKS.example.com:443/tools/a":                        true,
		"http://10.1.2.3:8080/anything":                                true,
		"http://10.1.2.3:8080":                                         true,
		"https://[2001:db8:0::1]:443/v6/x":                             true,
		"http://hooks.example.com/tools/a":                             false,
		"https://hooks.example.com/toolsmith":                          false,
		"https://hooks.example.com/":                                   false,
		"https://hooks.example.com:8443/tools/a":                       false,
		"https://hooks.example.com.evil.org/tools/a":                   false,
		"https://evil.org/tools/a":                                     false,
		"https://hooks.example.com@evil.org/tools/a":                   false,
		"https://user:pw@hooks.example.com/tools/a":                    false,
		"https://hooks.example.com/tools/../admin":                     false,
		"https://hooks.example.com/tools/%2e%2e/admin":                 false,
		"https://hooks.example.com/tools/a%2f..%2f..":                  false,
		"https://hooks.example.com/tools/./a":                          false,
		"https://hooks.example.com/tools//a":                           false,
		`https://hooks.example.com/tools/a\..\..\b`:                    false,
		"https://hooks.example.com/tools/..;/admin":                    false,
		"https://hooks.example.com/tools/a#b":                          false,
		"https://hooks.example.com/tools/a#":                           false,
		"http://10.1.2.3/":                                             false,
		"http://10.1.2.4:8080/":                                        false,
		"http://[::ffff:10.1.2.3]:8080/":                               false,
		"http://[fe80::1%25eth0]/":                                     false,
		"http://169.254.169.254/latest/meta-data/":                     false,
		"file:///etc/passwd":                                           false,
		"https:hooks.example.com/tools/a":                              false,
		"/tools/a":                                                     false,
		"":                                                             false,
		"https://hooks.example.com/tools/" + strings.Repeat("a", 2048): false,
	} {
		if err := c.Check(at); (err == nil) != allowed {
			t.Errorf("%.100s: %v", at, err)
		}
	}
}

func TestNewRefusesPrefixesThatAreAmbiguous(t *testing.T) {
	secrets := []webhook.Secret{parseSecret(t, exampleSecret)}
	for _, prefix := range []string{"", "hooks.example.com", "ftp://hooks.example.com/", "https://a:b@hooks.example.com/", "https://hooks.example.com/?x", "https://hooks.example.com/a/../b"} {
		if _, err := webhook.New(webhook.Config{Prefixes: []string{prefix}, Secrets: secrets}); err == nil {
			t.Errorf("the prefix %q is accepted", prefix)
		}
	}
	if _, err := webhook.New(webhook.Config{Prefixes: []string{"https://hooks.example.com/"}}); err == nil {
		t.Error("no secret is accepted")
	}
}

func BenchmarkCall(b *testing.B) {
	hook := httptest.NewServer(answering(200, "", "", `{"result": 1}`))
	defer hook.Close()
	secrets, err := webhook.ParseSecrets(exampleSecret)
	if err != nil {
		b.Fatal(err)
	}
	c, err := webhook.New(webhook.Config{Prefixes: []string{hook.URL}, Secrets: secrets})
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	for b.Loop() {
		if _, err := c.Call(b.Context(), hook.URL, call); err != nil {
			b.Fatal(err)
		}
	}
}
