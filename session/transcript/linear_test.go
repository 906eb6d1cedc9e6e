package transcript

import (
	"runtime"
	"strings"
	"testing"
	"time"

	"talaria/session/cputest"
)

// work returns the CPU time that it takes to redact a text and to lay it out: the least of three attempts.
func work(t *testing.T, r *Redactor, text string) time.Duration {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	least := time.Duration(1 << 62)
	for range 3 {
		before := cputest.ThreadTime(t)
		tr := New(r)
		for rest := text; rest != ""; {
			piece := Cut(rest, 8<<10)
			rest = rest[len(piece):]
			tr.Write(false, piece)
		}
		_ = tr.String()
		least = min(least, cputest.ThreadTime(t)-before)
	}
	return least
}

// FuzzTheWorkGrowsWithTheText repeats a text. Six times as much may take six times as long, and not 36 times.
func FuzzTheWorkGrowsWithTheText(f *testing.F) {
	for _, unit := range []string{"x", " ", "-", "=", ":", "\r", "\n", "key:", "pwd=", "api_token:", "Authorization: ", "Authorization: Bearer ", "sk-", "ghp_", "-eyJ",
		"eyJ", "eyJhbGciOiJIUzI1NiJ9.", "postgres://a:", "://x:", "AKIA", "AKIA0123456789ABCDE ", "-----BEGIN ", "-----BEGIN PRIVATE KEY-----", "-----END ",
		"password" + strings.Repeat(" ", 500) + "=", "my-secret-valu", "\x1b[", "\x1b]", "\x1b[31m", "\x1b[9999A\n", "\x1b[9999C", "a\b", "ab\r\x1b[K", "é\u0301", "\U000E0041"} {
		f.Add(unit)
	}
	r := NewRedactor(Rules{Known: true, Values: []string{"my-secret-value"}, Expressions: expressions(`sk-[a-z]+!?`, `\b(a|b)*c\b`)})
	f.Fuzz(func(t *testing.T, unit string) {
		if unit == "" || len(unit) > 4<<10 {
			t.Skip()
		}
		const size, times, most = 128 << 10, 6, 3
		unit = strings.ToValidUTF8(unit, "?")
		short := work(t, r, strings.Repeat(unit, size/len(unit)+1))
		long := work(t, r, strings.Repeat(unit, times*(size/len(unit)+1)))
		if long > times*most*short+5*time.Millisecond {
			t.Errorf("%.100q: %v for %d KiB, and %v for %d times as much", unit, short, size>>10, long, times)
		}
	})
}
