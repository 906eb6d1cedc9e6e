package transcript

import (
	"encoding/json"
	"math/rand/v2"
	"strings"
	"testing"
)

// redactAll redacts a text that comes in pieces of n bytes.
func redactAll(r *Redactor, text string, n int) string {
	var b strings.Builder
	out := func(clean string) { b.WriteString(clean) }
	d := r.begin()
	for text != "" {
		piece := Cut(text, max(n, 4))
		text = text[len(piece):]
		d.write(piece, out)
	}
	d.finish(out)
	return b.String()
}

// body is n characters of a token.
func body(n int) string { return strings.Repeat("a1B2c3D4e5", n/10+1)[:n] }

var knownSecrets = []struct{ name, in, want string }{
	{"a token", "use sk-" + body(48) + " now", "use [redacted] now"},
	{"a token of a project", "sk-proj-" + body(20) + "-_" + body(20), "[redacted]"},
	{"two tokens", "ghp_" + body(36) + ",gho_" + body(36), "[redacted],[redacted]"},
	{"a fine-grained token", "github_pat_" + body(22) + "_" + body(59), "[redacted]"},
	{"chat", "xoxb-123456789012-" + body(24), "[redacted]"},
	{"an app", "xapp-1-A02-" + body(24), "[redacted]"},
	{"maps", "AIza" + body(35) + "&x", "[redacted]&x"},
	{"a cloud", "id AKIAIOSFODNN7EXAMPLE.", "id [redacted]."},
	{"a hub", "hf_" + body(34), "[redacted]"},
	{"packages", "npm_" + body(36) + " pypi-AgEIcHlwaS5vcmc" + body(60), "[redacted] [redacted]"},
	{"mail", "SG." + body(22) + "." + body(43) + ".", "[redacted]."},
	{"search", "tvly-" + body(32), "[redacted]"},
	{"a JSON Web Token", "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0." + body(43) + " x", "[redacted] x"},
	{"a long token", "sk-" + body(100_000) + "!", "[redacted]!"},
	{"after an escape sequence", `'x\nghp_` + body(36) + `\n'`, `'x\n[redacted]\n'`},
	{"after a percent code", "q%3Dghp_" + body(36), "q%3D[redacted]"},

	{"a header", "Authorization: Bearer abc123def456", "Authorization: Bearer [redacted]"},
	{"a header of a proxy", "Proxy-Authorization: Basic dXNlcjpwYXNz", "Proxy-Authorization: Basic [redacted]"},
	{"a header in JSON", `{"Authorization": "Bearer abc123def456", "x": 1}`, `{"Authorization": "Bearer [redacted]", "x": 1}`},
	{"a header of curl", `-H 'X-Api-Key: abc123def456'`, `-H 'X-Api-Key: [redacted]'`},
	{"a header with its signature", "Authorization: AWS4-HMAC-SHA256 Credential=AKIA/2024, Signature=0123abc\nx", "Authorization: AWS4-HMAC-SHA256 [redacted]\nx"},
	{"a bearer", "sent Bearer " + body(32), "sent Bearer [redacted]"},
	{"a bot", "https://api.telegram.org/bot123456789:AA" + body(33) + "/getMe", "https://api.telegram.org/bot123456789:[redacted]/getMe"},

	{"an address", "postgres://me:hunter2@db:5432/x", "postgres://me:[redacted]@db:5432/x"},
	{"an address with signs", "mysql+pymysql://me:p@ss:w0rd@db/x", "mysql+pymysql://me:[redacted]@db/x"},
	{"an address without a user", "redis://:s3cret@cache", "redis://:[redacted]@cache"},
	{"a token in an address", "https://" + body(40) + "@example.com/x.git", "https://[redacted]@example.com/x.git"},
	{"a parameter", "https://x.org/?a=1&access_token=" + body(20) + "&b=2", "https://x.org/?a=1&access_token=[redacted]&b=2"},
	{"a signature", "https://x.org/f?X-Amz-Signature=" + body(64) + "&b=2", "https://x.org/f?X-Amz-Signature=[redacted]&b=2"},

	{"an assignment", "OPENAI_API_KEY=abc123\nexport DB_PASSWORD=swordfish\n", "OPENAI_API_KEY=[redacted]\nexport DB_PASSWORD=[redacted]\n"},
	{"an assignment in quotes", `SECRET_KEY="abc 1" API_KEY="abc-123"`, `SECRET_KEY="abc 1" API_KEY="[redacted]"`},
	{"keyword arguments", "Client(api_key='abc123def', password='hunter2')", "Client(api_key='[redacted]', password='[redacted]')"},
	{"keyword arguments without quotes", "Client(password=hunter2, user=x)", "Client(password=[redacted], user=x)"},
	{"a field", `{"password": "hunter2", "n": 1}`, `{"password": "[redacted]", "n": 1}`},
	{"a field in camel case", `{"clientSecret":"abc123def"}`, `{"clientSecret":"[redacted]"}`},
	{"JSON in JSON", `"{\"api_key\": \"abc123def\", \"n\": 1}"`, `"{\"api_key\": \"[redacted]\", \"n\": 1}"`},
	{"JSON in JSON in JSON", `{\\\"api_key\\\": \\\"abc123def\\\"}`, `{\\\"api_key\\\": \\\"[redacted]\\\"}`},
	{"a quote in a value", `{"password": "hun\"ter2"}`, `{"password": "[redacted]"}`},
	{"a dictionary", "{'api_key': 'abc123def', 'n': 1}", "{'api_key': '[redacted]', 'n': 1}"},
	{"bytes", "password = b'hunter2'", "password = b'[redacted]'"},
	{"repr", `'API_KEY=abc123def\nN=1\n'`, `'API_KEY=[redacted]\nN=1\n'`},
	{"a line of a traceback", `    os.environ["API_KEY"] = "abc123def"`, `    os.environ["API_KEY"] = "[redacted]"`},
	{"YAML", "db:\n  password: hunter2\n  port: 1\n", "db:\n  password: [redacted]\n  port: 1\n"},
	{"numbered lines", "5|API_KEY: abc123def\n12:API_KEY=abc123def\n     7\tapi_key: abc123def\n",
		"5|API_KEY: [redacted]\n12:API_KEY=[redacted]\n     7\tapi_key: [redacted]\n"},
	{"a session", "token: " + body(32), "token: [redacted]"},

	{"a private key", "a\n-----BEGIN RSA PRIVATE KEY-----\n" + strings.Repeat(body(64)+"\n", 9) + "abc=\n-----END RSA PRIVATE KEY-----\nb", "a\n[redacted]\nb"},
	{"a private key in one line", `{"k": "-----BEGIN PRIVATE KEY-----\n` + body(64) + `\nabc=\n-----END PRIVATE KEY-----\n"}`, `{"k": "[redacted]\n"}`},
	{"a private key that breaks off", "-----BEGIN OPENSSH PRIVATE KEY-----\n" + body(64) + "\n" + body(64) + "\nand then some text\n", "[redacted]\nand then some text\n"},
	{"a private key with numbered lines", "1|-----BEGIN PRIVATE KEY-----\n2|" + body(64) + "\n3|ab=\n4|-----END PRIVATE KEY-----\n", "1|[redacted]\n"},
}

func TestP37KnownSecretsAreRedactedAndTheirNamesStay(t *testing.T) {
	r := NewRedactor(Rules{Known: true})
	for _, c := range knownSecrets {
		for _, n := range []int{1 << 30, 7} {
			if got := redactAll(r, c.in, n); got != c.want {
				t.Errorf("P37, P37b: %s, in pieces of %d: %.200q, want %.200q", c.name, n, got, c.want)
			}
		}
	}
}

func TestP37TokensOfEachVendorAreRedacted(t *testing.T) {
	r := NewRedactor(Rules{Known: true})
	prefixes := map[string]bool{}
	for _, f := range forms {
		prefixes[f.prefix] = true
		n := max(f.min, 20)
		if f.max > 0 {
			n = min(n, f.max)
		}
		secret := f.prefix + strings.Repeat("0a1b2c3d4e", n/10+4)[:n]
		switch f.class {
		case upper:
			secret = strings.ToUpper(secret)
		case token:
			secret = f.prefix + strings.Repeat("0A1b2c3d4e", n/10+1)[:n]
		}
		switch f.prefix {
		case "eyJ":
			secret = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.abcdef"
		case "sntrys_":
			secret = f.prefix + "eyJ" + body(40)
		}
		want := "(" + redacted + ")"
		if f.keep {
			want = "(" + f.prefix + redacted + ")"
		}
		if got := redactAll(r, "("+secret+")", 1<<30); got != want {
			t.Errorf("P37: %q is %q", secret, got)
		}
	}
	if len(prefixes) < 50 {
		t.Errorf("P37: %d prefixes, want 50 at least", len(prefixes))
	}
}

// ordinary output that must come through unchanged.
const innocent = `Secretary: Ms. Jones1, tokenizer: BertTokenizerFast2, Passwords: none, the secret: be kind.
KEY=os.getenv("X")  API_KEY=os.environ["API_KEY1"] api_key=settings.API_KEY token=self.token1 password=get_password(1)
API_KEY=$OPENAI_KEY1 API_KEY=${KEY2} PASSWORD=/run/secrets/pw1 PRIVATE_KEY=./key1.pem key_file: ~/.ssh/id_rsa1 TOKEN=<token1>
password: str, api_key: Optional[str] = None, token: int = 5, api_key=None, password=True, if token == "abc123def456ghi789":
{'password': 'object', 'token': 'int64', "api_key": "string", "token": "This field is required"}, password="***", "eos_token": "<|endoftext|>"
max_tokens=512, pad_token='[PAD]', pad_token_id=50256, n_tokens: 123456, primary_key=12345678, key='customer_id_2024', sort_key: created_2024
commit 3b18e512dba79e4c8300dd08aeb37f8e728b8dad
Author: A U Thor <a.u.thor@example.com>
Date:   Thu Mar 7 12:30:45 2024 +0100
id: 123e4567-e89b-12d3-a456-426614174000 sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855
data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==
      token  count  score   secret_santa      date
0     the  1042   0.31  True  2024-03-01
1     ing    17  -0.55  False 2024-03-02 12:30:45
dtype: object
array([[ 0.1234, -1.2345e-05],
       [ 3.1415,  2.7182]])
Traceback (most recent call last):
  File "/home/user/project/app.py", line 12, in <module>
    raise ValueError(f"no such key: {key}")
KeyError: 'customer_2024_id'
Collecting numpy==1.26.4
  Downloading numpy-1.26.4-cp311-cp311-manylinux_2_17_x86_64.manylinux2014_x86_64.whl (18.3 MB)
     ━━━━━━━━━━━━━━━━━━━━━━━━ 18.3/18.3 MB 45.2 MB/s eta 0:00:00
Successfully installed numpy-1.26.4 pypi-simple-1.5.0 hf-transfer-0.1.6 npm_config_cache_2 sk-learn-0.0
<div id="sk-container-id-1" class="sk-top-container sk-toggleable__label-arrow-2 sk-estimator-doc-link-fitted-00">
https://example.com:8080/path?page=2&sort=name1&q=token user@example.com git@github.com:me/repo.git http://localhost:8888/tree
postgres://user:${PW}@host/db postgres://user:***@host/db sqlite:///data.db ratio 12345678:12345679 10:20:30
Epoch 1/10: loss=0.1234, acc=0.9876, lr=1e-4, key=value, author: someone123, signature=(x1, y2), auth=None, code=200abc
-----BEGIN PUBLIC KEY-----
MIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8AMIIBCgKCAQEAu1SU1LfVLPHCozMxH2Mo
-----END PUBLIC KEY-----
if "-----BEGIN PRIVATE KEY-----" in text: print("a key")
The bearer of the ring: Bearer tokens are described below. risk-taking task-oriented ask_me_later1234567890123 xai-kit AKIA eyJ.
x = df["token"].value_counts(); y: dict[str, int] = {}; token: Token = Token(1); secret := os.Getenv("SECRET1")
`

func TestP37bOrdinaryOutputIsUnchanged(t *testing.T) {
	r := NewRedactor(Rules{Known: true})
	for line := range strings.Lines(innocent) {
		if got := redactAll(r, line, 1<<30); got != line {
			t.Errorf("P37b: %q became %q", line, got)
		}
	}
	if got := redactAll(r, innocent, 64); got != innocent {
		t.Errorf("P37b: in pieces it became %q", got)
	}
	for name, text := range benchmarkTexts() {
		switch name {
		case "prose", "code", "table", "digits", "floats", "base64", "zeros base64", "one letter", "5k spaces", "hyphens":
			if got := redactAll(r, text, 64<<10); got != text {
				t.Errorf("P37b: %s has changed", name)
			}
		}
	}
}

func TestP35SecretsAreRedactedBeforeTheTextIsCut(t *testing.T) {
	secret := "ghp_" + body(36)
	for shift := range len(secret) + 2 {
		tr := New(NewRedactor(Rules{Known: true}))
		tr.Write(false, strings.Repeat("x", textBudget*2/5-shift-1)+" "+secret+" "+strings.Repeat("y", textBudget))
		if got := tr.String(); strings.Contains(got, "a1B2") || strings.Contains(got, "ghp_") {
			t.Fatalf("P35: with %d bytes before the cut a part of the secret is left", shift)
		}
	}
}

func TestP36SecretsInTwoPiecesAreRedacted(t *testing.T) {
	for _, c := range knownSecrets {
		if len(c.in) > 2000 {
			continue
		}
		for at := range c.in {
			tr := New(NewRedactor(Rules{Known: true}))
			tr.Write(false, c.in[:at])
			_ = tr.String() // as it is read while the cell runs, which must not disturb what is held back
			saved, err := json.Marshal(tr.Save())
			var state State
			if err != nil || json.Unmarshal(saved, &state) != nil {
				t.Fatal(err)
			}
			tr = New(NewRedactor(Rules{Known: true}))
			tr.Restore(state)
			tr.Write(false, c.in[at:])
			if got := tr.String(); got != c.want {
				t.Fatalf("P36: %s: cut at %d it is %q, want %q", c.name, at, got, c.want)
			}
		}
	}
}

// FuzzP36PiecesMakeNoDifference redacts random texts of what the rules look for, whole and in pieces.
func FuzzP36PiecesMakeNoDifference(f *testing.F) {
	for i, c := range knownSecrets {
		f.Add(c.in, uint64(i))
	}
	f.Add(innocent, uint64(1))
	f.Fuzz(func(t *testing.T, text string, seed uint64) {
		text = strings.ToValidUTF8(text, "?")
		random := rand.New(rand.NewPCG(seed, 0))
		rules := Rules{Known: true}
		if seed%3 == 0 {
			rules.Values = []string{"a1B2c3D4", "KEY=abc1"}
			rules.Expressions = expressions(`[a-c]+1`)
		}
		r := NewRedactor(rules)
		want := redactAll(r, text, 1<<30)
		if text == "" {
			return
		}
		if got := redactPieces(random, r, text); got != want {
			t.Fatalf("in pieces %q is %q, want %q", text, got, want)
		}
	})
}

func TestP36RandomPiecesMakeNoDifference(t *testing.T) {
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 0))
	parts := []string{"sk-", "ghp_", "AIza", "AKIA", "eyJ", ".", "-", "_", ":", "=", "://", "@", "\"", "'", "\\", "\\n", " ", "\n", "ä", "a1", "B2c3",
		"api_key", "PASSWORD", "Authorization", "Bearer ", "-----BEGIN PRIVATE KEY-----", "-----END PRIVATE KEY-----", body(20), body(40), body(300), "12345678"}
	for range 20_000 {
		var in strings.Builder
		for range 1 + random.IntN(30) {
			in.WriteString(parts[random.IntN(len(parts))])
		}
		rules := Rules{Known: true}
		if random.IntN(3) == 0 {
			rules.Values, rules.Expressions = []string{"a1B2c3D4", "KEY=a1"}, expressions(`[a-c]+1`)
		}
		r := NewRedactor(rules)
		want := redactAll(r, in.String(), 1<<30)
		if got := redactPieces(random, r, in.String()); got != want {
			t.Fatalf("seed %d: in pieces %q is %q, want %q", seed, in.String(), got, want)
		}
	}
}

// FuzzP37PlantedSecretsNeverAppear puts a token between random texts.
func FuzzP37PlantedSecretsNeverAppear(f *testing.F) {
	f.Add("x ", " y", uint64(0))
	f.Add("API_KEY='", "'", uint64(1))
	f.Add("token: ", "", uint64(2))
	f.Fuzz(func(t *testing.T, before, after string, seed uint64) {
		secret := "ghp_" + body(36)
		text := strings.ToValidUTF8(before, "?") + " " + secret + " " + strings.ToValidUTF8(after, "?")
		got := redactPieces(rand.New(rand.NewPCG(seed, 0)), NewRedactor(Rules{Known: true}), text)
		if strings.Contains(got, secret) {
			t.Fatalf("%q became %q", text, got)
		}
	})
}

func TestKnownFormsLeaveTheOrderOfStreamsAlone(t *testing.T) {
	tr := New(NewRedactor(Rules{Known: true}))
	for i, text := range []string{"one line\n", "an error\n", "no newline", "inside", "gh", "y", "x_"} {
		tr.Write(i%2 == 1, text)
	}
	if got, want := tr.String(), "one line\nan error\nno newlineinsideghyx_"; got != want {
		t.Errorf("the text is %q, want %q", got, want)
	}
	// What may be a secret already is held back, so that its end is redacted too.
	tr.Write(false, "\nAPI_KEY=")
	tr.Write(true, "an error\n")
	tr.Write(false, "0123456789abcdef\n")
	if got := tr.String(); strings.Contains(got, "012345") || !strings.HasSuffix(got, "API_KEY=[redacted]\n") {
		t.Errorf("the text is %q", got)
	}
}
