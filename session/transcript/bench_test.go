package transcript

import (
	"encoding/base64"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// benchmarkTexts are texts of about 1 MiB each: ordinary output, and what is hard for a rule.
func benchmarkTexts() map[string]string {
	random := rand.New(rand.NewPCG(1, 1))
	blob := make([]byte, 768<<10)
	for i := range blob {
		blob[i] = byte(random.Uint32())
	}
	var floats strings.Builder
	for floats.Len() < 1<<20 {
		fmt.Fprintf(&floats, "% .8f ", random.NormFloat64())
	}
	fill := func(text string) string { return strings.Repeat(text, 1<<20/len(text)) }
	return map[string]string{
		"prose":        fill("The quick brown fox jumps over the lazy dog; it was a fine day, and the kernel slept.\n"),
		"code":         fill("    def fit(self, x_train: np.ndarray, *, max_iter=100) -> None:\n        self.coef_ = solve(x_train.T @ x_train)\n"),
		"table":        fill("1042  2024-03-01 12:30:45  Springfield   3.14159  -0.0012  True  NaN\n"),
		"digits":       fill("31415926535897932384626433832795028841971"),
		"floats":       floats.String(),
		"base64":       base64.StdEncoding.EncodeToString(blob),
		"zeros base64": fill("A"),
		"one letter":   fill("x"),
		"5k spaces":    fill("password" + strings.Repeat(" ", 5000) + "=" + strings.Repeat(" ", 5000)),
		"hyphens":      fill("-"),
		"equal signs":  fill("="),
		"colons":       fill("key:"),
		"names":        fill("pwd="),
		"token names":  fill("api_token:"),
		"headers":      fill("Authorization: "),
		"prefixes":     fill("sk-"),
		"all prefixes": fill("sk- ghp_ github_pat_ xoxb- AIza AKIA hf_ npm_ pypi- glpat- SG. tvly- eyJ "),
		"jwt":          fill("-eyJ"),
		"addresses":    fill("postgres://a:"),
		"no scheme":    fill("://x:"),
		"aws":          fill("AKIA"),
		"almost aws":   fill("AKIA0123456789ABCDE "),
		"jwt header":   fill("eyJ"),
		"jwt no end":   fill("eyJhbGciOiJIUzI1NiJ9."),
		"pem words":    fill("-----BEGIN "),
		"pem":          fill("-----BEGIN PRIVATE KEY-----"),
		"pem body":     "-----BEGIN PRIVATE KEY-----\n" + fill("MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7\n"),
		"secrets":      fill("ghp_0123456789abcdefghijklmnopqrstuvwxyz "),
	}
}

func BenchmarkOutput(b *testing.B) {
	for name, text := range benchmarkTexts() {
		b.Run(name, func(b *testing.B) {
			r := NewRedactor(Rules{Known: true})
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				t := New(r)
				for rest := text; rest != ""; {
					piece := Cut(rest, 64<<10)
					rest = rest[len(piece):]
					t.Write(false, piece)
				}
			}
		})
	}
}
