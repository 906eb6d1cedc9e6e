package librechat

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"maps"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"talaria/api"
)

// invalid reports whether an error is the client's mistake.
func invalid(err error) bool {
	known := new(api.Error)
	return errors.As(err, &known) && known.Code == api.CodeInvalidRequest
}

func FuzzRequests(f *testing.F) {
	for _, body := range []string{
		`{"lang":"py","code":"print(1)","user_id":"u1","runtime_session_hint":"conv-1"}`,
		`{"lang":"bash","code":"echo $1","args":["a b"],"files":[{"id":"i","storage_session_id":"s","name":"a.csv","kind":"skill","version":1}]}`,
		`{"continuation_token":"x","tool_results":[{"call_id":"c","result":{"a":[1]},"is_error":false}]}`,
		`{"code":"1","tools":[{"name":"get-weather","parameters":{"type":"object"}}],"timeout":60000}`,
		`{"code":"1","args":["\n"]}`, `{"code":5}`, `{"timeout":-1,"code":""}`, `{"timeout":1e308,"code":""}`, `[`, `null`,
		`{"lang":"\ud800"}`, strings.Repeat("[", 1000), continuation{Session: "r", Execution: "e", TimeoutMS: 5}.token(),
	} {
		f.Add([]byte(body))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		if _, err := decodeContinuation(string(body)); err != nil && !invalid(err) {
			t.Errorf("the token %q fails with %v", body, err)
		}
		r, err := decodeExec(body)
		if err != nil {
			if !invalid(err) {
				t.Errorf("%q fails with %v", body, err)
			}
			return
		}
		if r.Code == nil && r.ContinuationToken == "" || r.timeout() < 0 || r.timeout() > 24*time.Hour {
			t.Errorf("%q is taken for %+v", body, r)
		}
		tools, names, err := pythonTools(r.Tools)
		if err != nil && !invalid(err) {
			t.Errorf("the tools of %q fail with %v", body, err)
		}
		for _, one := range tools {
			if !regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`).MatchString(one.Name) {
				t.Errorf("a tool of %q has the name %q in Python", body, one.Name)
			}
		}
		c := continuation{Session: "r1", Execution: "e1", Names: names}
		again, err := decodeContinuation(c.token())
		if len(c.token()) <= maxToken && (err != nil || again.Session != c.Session || !maps.Equal(again.Names, names)) {
			t.Errorf("a token comes back as %+v (%v)", again, err)
		}
		if set := setArguments(r.Args); strings.ContainsAny(set, "\n\r") {
			t.Errorf("the arguments of %q are %q", body, set)
		}
	})
}

func TestToolsHaveTheNamesThatModelsAreTold(t *testing.T) {
	for name, want := range map[string]string{
		"get_weather": "get_weather", "get-weather": "get_weather", "web search": "web_search", "2nd": "_2nd", "import": "import_tool", "a.b/c": "abc",
	} {
		if got := pythonName(name); got != want {
			t.Errorf("%q is called %q, want %q", name, got, want)
		}
	}
	for _, list := range [][]tool{{{Name: "..."}}, {{Name: "a-b"}, {Name: "a_b"}}} {
		if _, _, err := pythonTools(list); !invalid(err) {
			t.Errorf("the tools %v are taken (%v)", list, err)
		}
	}
}

func TestIDsAreThoseThatLibreChatPassesOn(t *testing.T) {
	valid := regexp.MustCompile(`^[A-Za-z0-9_-]{21}$`) // as LibreChat checks those of downloads
	for _, id := range []string{idOf('r', "u", "conv-1"), randomID('x'), fileID("a/b.csv"), fileID("")} {
		if !valid.MatchString(id) || !api.ValidID(id) {
			t.Errorf("the id %q is not valid", id)
		}
	}
	if idOf('r', "a", "bc") == idOf('r', "ab", "c") || idOf('r', "a") == idOf('r', "a", "") {
		t.Error("two conversations have the same id")
	}
}

func TestPathsWithATokenAreSplit(t *testing.T) {
	for path, want := range map[string][2]string{
		"/librechat/v1/exec": {"", "/v1/exec"}, "/librechat/tal_x/v1/exec": {"tal_x", "/v1/exec"}, "/librechat/tal_x/v1": {"tal_x", "/v1"},
		"/librechat": {"", ""}, "/librechat/x": {"", "/x"}, "/librechat/v1/v1/exec": {"", "/v1/v1/exec"}, "/librechat/a/b/v1/exec": {"", "/a/b/v1/exec"},
	} {
		if token, rest := Split(path); token != want[0] || rest != want[1] {
			t.Errorf("%s is split into %q and %q, want %q", path, token, rest, want)
		}
	}
}

func TestExceptionsBecomeExitCodes(t *testing.T) {
	script := []string{"Traceback (most recent call last):", `  File "<cell 1>", line 1, in <module>`, "    %%script bash -s --"}
	for name, c := range map[string]struct {
		e    api.ErrorOutput
		code int
		text string
	}{
		"exception":         {api.ErrorOutput{Ename: "ValueError", Evalue: "3", Traceback: []string{"a", "b\n"}}, 1, "a\nb"},
		"exit":              {api.ErrorOutput{Ename: "SystemExit", Evalue: "3"}, 3, ""},
		"exit, success":     {api.ErrorOutput{Ename: "SystemExit", Evalue: "None"}, 0, ""},
		"exit with words":   {api.ErrorOutput{Ename: "SystemExit", Evalue: "no"}, 1, "no"},
		"script":            {api.ErrorOutput{Ename: "CalledProcessError", Evalue: "Command '['bash']' returned non-zero exit status 7.", Traceback: script}, 7, ""},
		"code of the model": {api.ErrorOutput{Ename: "CalledProcessError", Evalue: "Command 'x' returned non-zero exit status 7.", Traceback: []string{"t"}}, 1, "t"},
	} {
		t.Run(name, func(t *testing.T) {
			r := result{Code: 1}
			if text := r.exception(c.e); text != c.text || r.Code != c.code {
				t.Errorf("%q and the code %d, want %q and %d", text, r.Code, c.text, c.code)
			}
		})
	}
}

// jwt makes a JSON Web Token of claims.
func jwt(t testing.TB, alg string, claims map[string]any, sign func(text []byte) []byte) string {
	t.Helper()
	part := func(v any) string {
		text, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return base64.RawURLEncoding.EncodeToString(text)
	}
	text := part(map[string]string{"alg": alg, "typ": "JWT", "kid": "k"}) + "." + part(claims)
	return text + "." + base64.RawURLEncoding.EncodeToString(sign([]byte(text)))
}

func inPEM(t testing.TB, key crypto.PublicKey) []byte {
	t.Helper()
	der, err := x509.MarshalPKIXPublicKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
}

func TestTokensOfLibreChatAreVerified(t *testing.T) {
	public, private, err1 := ed25519.GenerateKey(rand.Reader)
	_, foreign, err2 := ed25519.GenerateKey(rand.Reader)
	rsaKey, err3 := rsa.GenerateKey(rand.Reader, 2048)
	if err := errors.Join(err1, err2, err3); err != nil {
		t.Fatal(err)
	}
	keys, err := ParseKeys(append(inPEM(t, public), inPEM(t, rsaKey.Public())...))
	if err != nil || len(keys) != 2 {
		t.Fatalf("the keys are %v (%v)", keys, err)
	}
	now := time.Unix(1_800_000_000, 0)
	with := func(changes map[string]any) map[string]any {
		c := map[string]any{
			"iss": "librechat", "aud": "codeapi", "sub": "user1", "tenant_id": "legacy", "role": "USER", "iat": now.Unix(), "nbf": now.Unix(),
			"exp": now.Unix() + 300,
		}
		for k, v := range changes {
			if c[k] = v; v == nil {
				delete(c, k)
			}
		}
		return c
	}
	ed := func(key ed25519.PrivateKey) func([]byte) []byte {
		return func(text []byte) []byte { return ed25519.Sign(key, text) }
	}
	rs := func(text []byte) []byte {
		sum := sha256.Sum256(text)
		signature, err := rsa.SignPKCS1v15(rand.Reader, rsaKey, crypto.SHA256, sum[:])
		if err != nil {
			t.Fatal(err)
		}
		return signature
	}
	for name, token := range map[string]string{
		"Ed25519": jwt(t, "EdDSA", with(nil), ed(private)), "RSA": jwt(t, "RS256", with(nil), rs),
		"clocks that differ": jwt(t, "EdDSA", with(map[string]any{"iat": now.Unix() + 20, "nbf": now.Unix() + 20}), ed(private)),
	} {
		if owner, shared, err := Verify(token, keys, now); err != nil || owner != "librechat:legacy:user1" || shared != "librechat:legacy" {
			t.Errorf("%s: %q, %q, %v", name, owner, shared, err)
		}
	}
	for name, token := range map[string]string{
		"another key":          jwt(t, "EdDSA", with(nil), ed(foreign)),
		"no signature":         jwt(t, "none", with(nil), func([]byte) []byte { return nil }),
		"another algorithm":    jwt(t, "RS256", with(nil), ed(private)),
		"the key as a secret":  jwt(t, "HS256", with(nil), func(text []byte) []byte { m := hmac.New(sha256.New, public); m.Write(text); return m.Sum(nil) }),
		"another issuer":       jwt(t, "EdDSA", with(map[string]any{"iss": "x"}), ed(private)),
		"another audience":     jwt(t, "EdDSA", with(map[string]any{"aud": "x"}), ed(private)),
		"no user":              jwt(t, "EdDSA", with(map[string]any{"sub": nil}), ed(private)),
		"no tenant":            jwt(t, "EdDSA", with(map[string]any{"tenant_id": ""}), ed(private)),
		"no end":               jwt(t, "EdDSA", with(map[string]any{"exp": nil}), ed(private)),
		"no beginning":         jwt(t, "EdDSA", with(map[string]any{"iat": nil}), ed(private)),
		"too long":             jwt(t, "EdDSA", with(map[string]any{"exp": now.Unix() + 301}), ed(private)),
		"expired":              jwt(t, "EdDSA", with(map[string]any{"iat": now.Unix() - 100, "exp": now.Unix() - 31}), ed(private)),
		"not yet":              jwt(t, "EdDSA", with(map[string]any{"nbf": now.Unix() + 31}), ed(private)),
		"issued in the future": jwt(t, "EdDSA", with(map[string]any{"iat": now.Unix() + 31}), ed(private)),
		"no token":             "eyJ.e.e", "empty": "",
	} {
		_, _, err := Verify(token, keys, now)
		if known := new(api.Error); !errors.As(err, &known) || known.Code != api.CodeUnauthorized {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, _, err := Verify(jwt(t, "EdDSA", with(nil), ed(private)), nil, now); err == nil || !strings.Contains(err.Error(), "jwt_keys") {
		t.Errorf("without keys: %v", err)
	}
}

func TestOnlyPublicKeysAreKeys(t *testing.T) {
	ec, err1 := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	_, private, err2 := ed25519.GenerateKey(rand.Reader)
	der, err3 := x509.MarshalPKCS8PrivateKey(private)
	if err := errors.Join(err1, err2, err3); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string][]byte{
		"nothing": nil, "no PEM": []byte("x"), "another kind": inPEM(t, ec.Public()),
		"a private key": pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}),
		"malformed":     pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: []byte("x")}),
	} {
		if keys, err := ParseKeys(text); err == nil {
			t.Errorf("%s: %v", name, keys)
		}
	}
}

func TestUsersHaveOwnersOfTheirOwn(t *testing.T) {
	seen := map[string][]string{}
	for _, parts := range [][]string{
		{"t"}, {"t", "u"}, {"t:u"}, {"t_3au"}, {"t", "ü"}, {"t", "U"}, {"t.u"}, {strings.Repeat("t", 500), strings.Repeat("u", 500)},
		{strings.Repeat("t", 500), strings.Repeat("u", 501)},
	} {
		name := ownerOf(parts...)
		if !api.ValidID(name) {
			t.Errorf("%.80q has the name %q, which no token can have", parts, name)
		}
		if seen[name] != nil {
			t.Errorf("%.80q and %.80q have the same name %q", parts, seen[name], name)
		}
		seen[name] = parts
	}
}

func TestErrorsAreInTheFormThatTheClientKnows(t *testing.T) {
	for name, c := range map[string]struct {
		problem *api.Error
		after   string
		status  int
		want    string
	}{
		"a request":  {api.Errorf(api.CodeInvalidRequest, "no"), "", 400, `{"code":"invalid_request","error":"no","message":"no"}`},
		"a limit":    {api.Errorf(api.CodeTooManyRequests, "no"), "", 429, `{"code":"too_many_requests","error":"rate_limited","message":"no","retry_after_seconds":10}`},
		"a pause":    {api.Errorf(api.CodeTooManyRequests, "no"), "7", 429, `{"code":"too_many_requests","error":"rate_limited","message":"no","retry_after_seconds":7}`},
		"no session": {api.Errorf(api.CodeSessionNotFound, "no"), "", 404, `{"code":"session_not_found","error":"no","message":"no"}`},
	} {
		w := httptest.NewRecorder()
		if c.after != "" {
			w.Header().Set("Retry-After", c.after)
		}
		Refuse(w, c.problem)
		if w.Code != c.status || w.Body.String() != c.want {
			t.Errorf("%s: %d %s", name, w.Code, w.Body)
		}
	}
}
