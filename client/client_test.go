package client_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"

	"talaria/api"
	"talaria/client"
)

// TestEachCallGoesWhereTheContractSays checks method, path, query and body of each call, and how it decodes the
// answer.
func TestEachCallGoesWhereTheContractSays(t *testing.T) {
	const session = `{"id":"tg:1","state":"idle","added_later":true}`
	const execution = `{"id":"e1","status":"ok","outputs":[{"output_type":"stream","name":"stdout","text":"hi"}]}`
	for _, test := range []struct {
		name    string
		want    string // the request
		status  int
		body    string
		call    func(ctx context.Context, c *client.Client) (any, error)
		outcome any
	}{
		{"create", `POST /v1/sessions {"id":"tg:1"}`, 201, session,
			func(ctx context.Context, c *client.Client) (any, error) {
				s, err := c.CreateSession(ctx, api.SessionRequest{ID: pointer("tg:1")})
				return s.ID, err
			}, "tg:1"},
		{"ensure, made", `PUT /v1/sessions/tg:1 {}`, 201, session,
			func(ctx context.Context, c *client.Client) (any, error) {
				_, made, err := c.EnsureSession(ctx, "tg:1", api.SessionRequest{})
				return made, err
			}, true},
		{"ensure, there", `PUT /v1/sessions/tg:1 {"name":"n"}`, 200, session,
			func(ctx context.Context, c *client.Client) (any, error) {
				_, made, err := c.EnsureSession(ctx, "tg:1", api.SessionRequest{Name: pointer("n")})
				return made, err
			}, false},
		{"ensure, kept", `PUT /v1/sessions/tg:1?if_exists=keep {}`, 200, session,
			func(ctx context.Context, c *client.Client) (any, error) {
				_, made, err := c.EnsureSession(ctx, "tg:1", api.SessionRequest{}, api.IfExistsKeep)
				return made, err
			}, false},
		{"list", `GET /v1/sessions?cursor=c&limit=2&metadata.chat=a+b&search=x%25&state=idle`, 200,
			`{"items":[` + session + `],"next_cursor":"d"}`,
			func(ctx context.Context, c *client.Client) (any, error) {
				p, err := c.Sessions(ctx, client.SessionFilter{
					State: api.StateIdle, Metadata: map[string]string{"chat": "a b"}, Search: "x%", Page: api.PageQuery{Limit: 2, Cursor: "c"},
				})
				return p.Items[0].ID + p.NextCursor, err
			}, "tg:1d"},
		{"get", `GET /v1/sessions/tg:1`, 200, session,
			func(ctx context.Context, c *client.Client) (any, error) {
				s, err := c.Session(ctx, "tg:1")
				return s.State, err
			}, api.StateIdle},
		{"update", `PATCH /v1/sessions/s {"name":"new"}`, 200, session,
			func(ctx context.Context, c *client.Client) (any, error) {
				s, err := c.UpdateSession(ctx, "s", api.SessionPatch{Name: pointer("new")})
				return s.ID, err
			}, "tg:1"},
		{"delete", `DELETE /v1/sessions/s`, 204, "",
			func(ctx context.Context, c *client.Client) (any, error) { return nil, c.DeleteSession(ctx, "s") }, nil},
		{"reset", `POST /v1/sessions/s/reset {"keep_files":false}`, 200, session,
			func(ctx context.Context, c *client.Client) (any, error) {
				s, err := c.ResetSession(ctx, "s", api.ResetRequest{KeepFiles: pointer(false)})
				return s.ID, err
			}, "tg:1"},
		{"keep", `POST /v1/sessions/s/keep`, 200, session,
			func(ctx context.Context, c *client.Client) (any, error) {
				s, err := c.KeepSession(ctx, "s")
				return s.ID, err
			}, "tg:1"},
		{"interrupt", `POST /v1/sessions/s/interrupt {"execution_id":"e1"}`, 202, "",
			func(ctx context.Context, c *client.Client) (any, error) { return nil, c.Interrupt(ctx, "s", "e1") }, nil},
		{"interrupt all", `POST /v1/sessions/s/interrupt {}`, 202, "{}",
			func(ctx context.Context, c *client.Client) (any, error) { return nil, c.Interrupt(ctx, "s", "") }, nil},
		{"input", `POST /v1/sessions/s/input {"value":"42"}`, 200, "{}",
			func(ctx context.Context, c *client.Client) (any, error) {
				return nil, c.Input(ctx, "s", api.InputRequest{Value: "42"})
			}, nil},
		{"execute", `POST /v1/sessions/s/executions {"code":"print('<hi>')"}`, 200, execution,
			func(ctx context.Context, c *client.Client) (any, error) {
				e, err := c.Execute(ctx, "s", api.ExecutionRequest{Code: pointer("print('<hi>')")})
				return e.Outputs[0].Text, err
			}, "hi"},
		{"execute and wait a while", `POST /v1/sessions/s/executions?wait_s=1.5 {"code":"1"}`, 202, `{"status":"running"}`,
			func(ctx context.Context, c *client.Client) (any, error) {
				e, err := c.ExecuteWait(ctx, "s", api.ExecutionRequest{Code: pointer("1")}, 1500*time.Millisecond)
				return e.Status.Final(), err
			}, false},
		{"executions", `GET /v1/sessions/s/executions?limit=1`, 200, `{"items":[` + execution + `]}`,
			func(ctx context.Context, c *client.Client) (any, error) {
				p, err := c.Executions(ctx, "s", api.PageQuery{Limit: 1})
				return len(p.Items), err
			}, 1},
		{"execution", `GET /v1/sessions/s/executions/e1`, 200, execution,
			func(ctx context.Context, c *client.Client) (any, error) {
				e, err := c.Execution(ctx, "s", "e1")
				return e.Status, err
			}, api.StatusOK},
		{"files", `GET /v1/sessions/s/files?path=a%2Fb+c`, 200, `{"items":[{"name":"x","kind":"file","size":3}]}`,
			func(ctx context.Context, c *client.Client) (any, error) {
				f, err := c.Files(ctx, "s", "a/b c")
				return f[0].Size, err
			}, int64(3)},
		{"upload", `PUT /v1/sessions/s/files/a%20b/c%23%3F%25.txt bytes`, 201, `{"name":"c","size":5}`,
			func(ctx context.Context, c *client.Client) (any, error) {
				f, made, err := c.PutFile(ctx, "s", "a b/c#?%.txt", strings.NewReader("bytes"))
				return []any{f.Size, made}, err
			}, []any{int64(5), true}},
		{"upload without an answer", `PUT /v1/sessions/s/files/x bytes`, 200, "",
			func(ctx context.Context, c *client.Client) (any, error) {
				_, made, err := c.PutFile(ctx, "s", "x", strings.NewReader("bytes"))
				return made, err
			}, false},
		{"download", `GET /v1/sessions/s/files/a/b.bin`, 200, "bytes",
			func(ctx context.Context, c *client.Client) (any, error) {
				d, err := c.GetFile(ctx, "s", "a/b.bin")
				if err != nil {
					return nil, err
				}
				defer d.Close()
				b, err := io.ReadAll(d)
				return []any{string(b), d.Size, d.MediaType}, err
			}, []any{"bytes", int64(5), "application/json"}},
		{"delete a file", `DELETE /v1/sessions/s/files/a/b`, 204, "",
			func(ctx context.Context, c *client.Client) (any, error) { return nil, c.DeleteFile(ctx, "s", "a/b") }, nil},
		{"rename a file", `PATCH /v1/sessions/s/files/a/b {"path":"c"}`, 200, `{"path":"c"}`,
			func(ctx context.Context, c *client.Client) (any, error) {
				f, err := c.RenameFile(ctx, "s", "a/b", "c")
				return f.Path, err
			}, "c"},
		{"artifacts", `GET /v1/sessions/s/artifacts`, 200, `{"items":[{"path":"p","change":"created","sha256":"ab"}]}`,
			func(ctx context.Context, c *client.Client) (any, error) {
				p, err := c.Artifacts(ctx, "s", api.PageQuery{})
				return p.Items[0].SHA256, err
			}, "ab"},
		{"artifact", `GET /v1/artifacts/ab`, 200, "png",
			func(ctx context.Context, c *client.Client) (any, error) {
				d, err := c.GetArtifact(ctx, "ab")
				if err != nil {
					return nil, err
				}
				defer d.Close()
				b, err := io.ReadAll(d)
				return string(b), err
			}, "png"},
		{"notebook", `GET /v1/sessions/s/notebook`, 200, `{"cells":[]}`,
			func(ctx context.Context, c *client.Client) (any, error) {
				b, err := c.Notebook(ctx, "s")
				return string(b), err
			}, `{"cells":[]}`},
		{"import a notebook", `POST /v1/sessions/s/notebook {"cells":[]}`, 200, "{}",
			func(ctx context.Context, c *client.Client) (any, error) {
				return nil, c.ImportNotebook(ctx, "s", []byte(`{"cells":[]}`))
			}, nil},
		{"stats", `GET /v1/stats`, 200, `{"kernels":3,"sessions":{"idle":2}}`,
			func(ctx context.Context, c *client.Client) (any, error) {
				s, err := c.Stats(ctx)
				return s.Kernels + s.Sessions[api.StateIdle], err
			}, int64(5)},
		{"healthy", `GET /healthz`, 200, `{"status":"ok","version":"v1"}`,
			func(ctx context.Context, c *client.Client) (any, error) { return nil, c.Healthy(ctx) }, nil},
		{"ready", `GET /readyz`, 200, `{"status":"ready"}`,
			func(ctx context.Context, c *client.Client) (any, error) { return nil, c.Ready(ctx) }, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			method, rest, _ := strings.Cut(test.want, " ")
			target, _, _ := strings.Cut(rest, " ")
			route, _, _ := strings.Cut(target, "?")
			s, c := serve(t, map[string]http.HandlerFunc{
				method + " " + route: answer(test.status, "application/json", test.body),
			})
			got, err := test.call(t.Context(), c)
			must(t, err)
			if !reflect.DeepEqual(got, test.outcome) {
				t.Errorf("outcome %v, want %v", got, test.outcome)
			}
			if seen := s.requests(); len(seen) != 1 || seen[0] != test.want {
				t.Errorf("sent %q, want %q", seen, test.want)
			}
		})
	}
}

func TestARefusalIsAnAPIErrorWithItsCode(t *testing.T) {
	_, c := serve(t, map[string]http.HandlerFunc{
		"GET /v1/sessions/s":      refusal(api.CodeSessionNotFound, "there is no session s"),
		"GET /v1/sessions/proxy":  answer(502, "text/html", "<h1>Bad gateway</h1>"),
		"GET /v1/sessions/plain":  answer(503, "text/plain; charset=utf-8", "try later"),
		"GET /v1/sessions/broken": answer(404, "application/problem+json", "{"),
		"GET /v1/sessions/odd":    answer(200, "application/json", `{"id":`),
	})
	for id, want := range map[string]api.Error{
		"s":      {Status: 404, Code: api.CodeSessionNotFound, Detail: "there is no session s"},
		"proxy":  {Status: 502, Detail: "status 502: the response is not a problem document"},
		"plain":  {Status: 503, Detail: "status 503: try later"},
		"broken": {Status: 404, Detail: "status 404: the response is not a problem document"},
	} {
		_, err := c.Session(t.Context(), id)
		var got *api.Error
		if !errors.As(err, &got) || got.Status != want.Status || got.Code != want.Code || got.Detail != want.Detail {
			t.Errorf("%s: %#v, want %#v", id, got, want)
		}
	}
	if _, err := c.Session(t.Context(), "odd"); err == nil {
		t.Error("half an answer is not an error")
	}
}

func TestACallEndsWithItsContext(t *testing.T) {
	arrived := make(chan struct{})
	_, c := serve(t, map[string]http.HandlerFunc{
		"GET /v1/sessions/s": func(_ http.ResponseWriter, r *http.Request) { close(arrived); <-r.Context().Done() },
	})
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-arrived; cancel() }()
	if _, err := c.Session(ctx, "s"); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func TestAURLThatIsNoneIsAnErrorOfTheCall(t *testing.T) {
	for _, bad := range []string{"", "nonsense", "http://[", "ftp://x"} {
		c := client.New(bad, token)
		if _, err := c.Session(t.Context(), "s"); err == nil {
			t.Errorf("%q: no error", bad)
		}
		if s, err := c.Attach(t.Context(), "s", client.AttachOptions{}); err == nil {
			s.Close()
			t.Errorf("%q: attached", bad)
		}
	}
}
