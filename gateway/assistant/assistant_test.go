package assistant_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"talaria/api"
	"talaria/gateway/assistant"
	"talaria/gateway/gatewaytest"
)

const key = "sk-secret-key"

func open(t *testing.T, url string) *assistant.Assistant {
	t.Helper()
	a, err := assistant.New(assistant.Config{BaseURL: url, Model: "model", Key: key})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func TestATurnWithCalls(t *testing.T) {
	m := gatewaytest.NewModel(key)
	defer m.Close()
	a := open(t, m.URL)
	m.Script(gatewaytest.ModelAnswer{Text: "Let me see.", Code: []string{"6 * 7", "1/0"}}, gatewaytest.ModelAnswer{Text: "42."})
	talk := []assistant.Message{assistant.User("six times seven?")}
	answer, err := a.Next(t.Context(), talk)
	if err != nil || answer.Content != "Let me see." || len(answer.ToolCalls) != 2 {
		t.Fatalf("%+v, %v", answer, err)
	}
	talk = append(talk, answer)
	for want := 2; want > 0; want-- {
		open := assistant.Open(talk)
		if len(open) != want {
			t.Fatalf("%d calls are open, want %d", len(open), want)
		}
		code, err := open[0].Code()
		if err != nil {
			t.Fatal(err)
		}
		talk = append(talk, assistant.Result(open[0].ID, api.Execution{Status: api.StatusOK, Text: "ran " + code}))
	}
	if answer, err = a.Next(t.Context(), talk); err != nil || answer.Content != "42." {
		t.Errorf("%+v, %v", answer, err)
	}
	if n := len(m.Requests()); n != 2 {
		t.Errorf("%d requests", n)
	}
}

func TestFailures(t *testing.T) {
	m := gatewaytest.NewModel("another key")
	defer m.Close()
	if _, err := open(t, m.URL).Next(t.Context(), []assistant.Message{assistant.User("x")}); err == nil || strings.Contains(err.Error(), key) || !strings.Contains(err.Error(), "rejects the key") {
		t.Errorf("a wrong key: %v", err)
	}
	m = gatewaytest.NewModel(key)
	defer m.Close()
	a := open(t, m.URL)
	for _, c := range []struct {
		answer gatewaytest.ModelAnswer
		want   string
	}{
		{gatewaytest.ModelAnswer{Status: 400, Body: `{"error":{"message":"no such\nmodel ` + key + `"}}`}, "no such model ***"},
		{gatewaytest.ModelAnswer{Status: 200, Body: `{"choices":[{"message":{"content":"  "}}]}`}, "answer was empty"},
		{gatewaytest.ModelAnswer{Status: 200, Body: `<html>`}, "is not in the format of"},
		{gatewaytest.ModelAnswer{Status: 200, Body: `{"choices":[{"message":{"content":"half"},"finish_reason":"length"}]}`}, ""},
	} {
		m.Script(c.answer)
		got, err := a.Next(t.Context(), []assistant.Message{assistant.User("x")})
		if c.want == "" {
			if err != nil || !strings.Contains(got.Content, "was cut") {
				t.Errorf("%+v, %v", got, err)
			}
			continue
		}
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), key) {
			t.Errorf("%+v gives %v", c.answer, err)
		}
	}
	before := len(m.Requests())
	m.Script(gatewaytest.ModelAnswer{Status: 503, Body: "{}"}, gatewaytest.ModelAnswer{Text: "again"})
	if got, err := a.Next(t.Context(), []assistant.Message{assistant.User("x")}); err != nil || got.Content != "again" {
		t.Errorf("after a 503: %+v, %v", got, err)
	}
	if n := len(m.Requests()) - before; n != 2 {
		t.Errorf("%d requests, want 2", n)
	}
}

func TestTheKeyStaysWithTheEndpoint(t *testing.T) {
	leaked := ""
	other := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { leaked += r.Header.Get("Authorization") }))
	defer other.Close()
	redirects := httptest.NewServer(http.RedirectHandler(other.URL, http.StatusTemporaryRedirect))
	defer redirects.Close()
	if _, err := open(t, redirects.URL).Next(t.Context(), []assistant.Message{assistant.User("x")}); err == nil || leaked != "" {
		t.Errorf("%v, leaked %q", err, leaked)
	}
}

func TestWrongCalls(t *testing.T) {
	for arguments, ok := range map[string]bool{`{"code":"1"}`: true, `{"code":1}`: false, `{}`: false, `1`: false, ``: false, `{"code":null}`: false} {
		call := assistant.Call{Function: assistant.Function{Name: "execute_code", Arguments: arguments}}
		if _, err := call.Code(); (err == nil) != ok {
			t.Errorf("%s: %v", arguments, err)
		}
	}
	if _, err := (assistant.Call{Function: assistant.Function{Name: "shell", Arguments: `{"code":"1"}`}}).Code(); err == nil {
		t.Error("another tool is taken")
	}
}

func TestResultsAreBounded(t *testing.T) {
	m := assistant.Result("1", api.Execution{Status: api.StatusOK, Text: strings.Repeat("ä", 1<<20)})
	if len(m.Content) > 13<<10 || !strings.Contains(m.Content, "bytes are left out here") {
		t.Errorf("a result of %d bytes: %.200s", len(m.Content), m.Content)
	}
}

func FuzzTrim(f *testing.F) {
	f.Add("uaacttuac", 300)
	f.Fuzz(func(t *testing.T, roles string, n int) {
		talk := []assistant.Message{assistant.User("first")}
		for _, r := range roles {
			switch r {
			case 'u':
				talk = append(talk, assistant.User("more"))
			case 'a':
				talk = append(talk, assistant.Message{Role: "assistant", Content: "text"})
			case 't':
				talk = append(talk, assistant.Message{Role: "assistant", ToolCalls: []assistant.Call{{ID: "1"}}}, assistant.Message{Role: "tool", ToolCallID: "1"})
			}
		}
		kept := assistant.Trim(talk, n)
		if len(kept) == 0 || kept[0].Role != "user" {
			t.Fatalf("%+v", kept)
		}
		body, _ := json.Marshal(kept)
		users := 0
		for _, m := range kept {
			if m.Role == "user" {
				users++
			}
		}
		if len(body) > n && users > 1 {
			t.Errorf("%d bytes with %d turns, want at most %d bytes", len(body), users, n)
		}
	})
}
