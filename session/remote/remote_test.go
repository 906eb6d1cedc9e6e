package remote_test

import (
	"strings"
	"testing"

	"talaria/session/remote"
)

func TestAReportedFailureKeepsAWordAsItsCodeAndABoundedMessage(t *testing.T) {
	for _, c := range []struct{ code, want string }{
		{"not_found", "not_found"},
		{"timeout", "timeout"},
		{"", "tool_error"},
		{"Not Found", "tool_error"},
		{strings.Repeat("a", 65), "tool_error"},
		{"a\nb", "tool_error"},
	} {
		if got := remote.ReportedFailure(c.code, "m"); got.Code != c.want || got.Message != "m" {
			t.Errorf("%q becomes %v, want the code %s", c.code, got, c.want)
		}
	}
	if got := remote.ReportedFailure("x", "bad \xff byte").Message; got != "bad \uFFFD byte" {
		t.Errorf("invalid UTF-8 became %q", got)
	}
	long := remote.ReportedFailure("x", strings.Repeat("é", 20_000)).Message
	if len(long) > 17_000 || !strings.HasSuffix(long, "é…") {
		t.Errorf("a long message has %d bytes and ends in %q", len(long), long[len(long)-8:])
	}
}
