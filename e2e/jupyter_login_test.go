package e2e

import (
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"talaria/api"
)

// webUI makes calls as Open WebUI does that has a password: it logs in, and then sends its cookies and a header.
type webUI struct {
	base   string // ends with a slash
	client *http.Client
	header http.Header
}

func (w *webUI) do(t *testing.T, method, path, kind, body string) *http.Response {
	t.Helper()
	req, err := http.NewRequestWithContext(within(t), method, w.base+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header = w.header.Clone()
	if kind != "" {
		req.Header.Set("Content-Type", kind)
	}
	res, err := w.client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = res.Body.Close() })
	return res
}

// cookies returns those that the client has, by their names.
func (w *webUI) cookies(t *testing.T) (byName map[string]string, header string) {
	t.Helper()
	at, err := url.Parse(w.base)
	if err != nil {
		t.Fatal(err)
	}
	byName = map[string]string{}
	var list []string
	for _, c := range w.client.Jar.Cookies(at) {
		byName[c.Name] = c.Value
		list = append(list, c.Name+"="+c.Value)
	}
	return byName, strings.Join(list, "; ")
}

// logIn returns the status of the login.
func (w *webUI) logIn(t *testing.T, password string) int {
	t.Helper()
	if res := w.do(t, "GET", "login", "", ""); res.StatusCode != http.StatusOK {
		t.Fatalf("GET login: %s", res.Status)
	}
	cookies, _ := w.cookies(t)
	w.header.Set("X-XSRFToken", cookies["_xsrf"])
	form := url.Values{"_xsrf": {cookies["_xsrf"]}, "password": {password}}
	return w.do(t, "POST", "login", "application/x-www-form-urlencoded", form.Encode()).StatusCode
}

func newWebUI(t *testing.T, base string) *webUI {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	return &webUI{base, &http.Client{Jar: jar, Transport: &http.Transport{}, CheckRedirect: plain.CheckRedirect}, http.Header{}}
}

func (w *webUI) dial(t *testing.T, kernel string, header http.Header) (*websocket.Conn, *http.Response, error) {
	t.Helper()
	conn, res, err := websocket.DefaultDialer.DialContext(within(t), "ws"+strings.TrimPrefix(w.base, "http")+"api/kernels/"+kernel+"/channels", header)
	if err == nil {
		t.Cleanup(func() { _ = conn.Close() })
		_ = conn.SetReadDeadline(time.Now().Add(patience)) // fails with the read
	}
	return conn, res, err
}

func TestOpenWebUILogsInWithAPassword(t *testing.T) {
	t.Parallel()
	s := start(t, options{config: "fronts:\n  jupyter:\n    addr: 127.0.0.1:0\n"})
	for name, base := range map[string]string{"below the path": s.URL + "/jupyter/", "at an address of its own": s.Fronts["jupyter"] + "/"} {
		t.Run(name, func(t *testing.T) {
			w := newWebUI(t, base)
			if status := w.logIn(t, "wrong"); status != http.StatusUnauthorized {
				t.Errorf("a wrong password: %d", status)
			}
			if res := w.do(t, "POST", "api/kernels", "", ""); res.StatusCode != http.StatusForbidden {
				t.Errorf("without a login: %s", res.Status)
			}
			if status := w.logIn(t, s.Token); status >= 400 {
				t.Fatalf("the login: %d", status)
			}
			res := w.do(t, "POST", "api/kernels", "", "")
			if res.StatusCode != http.StatusCreated {
				t.Fatalf("a kernel: %s", res.Status)
			}
			kernel := strings.TrimPrefix(res.Header.Get("Location"), "/jupyter/api/kernels/")
			_, cookies := w.cookies(t)
			conn, _, err := w.dial(t, kernel, http.Header{"Cookie": {cookies}, "X-XSRFToken": w.header["X-Xsrftoken"]})
			if err != nil {
				t.Fatal(err)
			}
			k := &jupyterSocket{conn, t, false}
			k.say(`{"msg_id":"a1","msg_type":"execute_request","username":"user","session":"s1","date":"","version":"5.3"}`,
				`{"code":"print(6 * 7)","silent":false,"store_history":true,"user_expressions":{},"allow_stdin":false,"stop_on_error":true}`)
			wantWords(t, k.until("a1"), "status busy", "execute_input", "stream 42\n", "execute_reply ok", "status idle")

			t.Run("a page of another site cannot use the login", func(t *testing.T) {
				for _, header := range []http.Header{{"Cookie": {cookies}}, {"Cookie": {cookies}, "X-XSRFToken": {"guessed"}}} {
					if _, res, err := w.dial(t, kernel, header); err == nil || res == nil || res.StatusCode != http.StatusForbidden {
						t.Errorf("a WebSocket with %v: %v", header["X-Xsrftoken"], err)
					}
				}
				w.header.Del("X-XSRFToken")
				if res := w.do(t, "DELETE", "api/kernels/"+kernel, "", ""); res.StatusCode != http.StatusForbidden {
					t.Errorf("a request without the header: %s", res.Status)
				}
				form := url.Values{"_xsrf": {"guessed"}, "password": {s.Token}}
				if res := w.do(t, "POST", "login", "application/x-www-form-urlencoded", form.Encode()); res.StatusCode != http.StatusForbidden {
					t.Errorf("a login without the cookie's value: %s", res.Status)
				}
				s.want(t, call{method: "GET", path: "/v1/sessions", token: "-", header: map[string]string{"Cookie": cookies}}, 401, api.CodeUnauthorized)
			})
			values, _ := w.cookies(t)
			w.header.Set("X-XSRFToken", values["_xsrf"])
			if res := w.do(t, "DELETE", "api/kernels/"+kernel, "", ""); res.StatusCode != http.StatusNoContent {
				t.Errorf("the end: %s", res.Status)
			}
		})
	}
}
