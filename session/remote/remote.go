// Package remote defines what the providers of tools in other programs and on other machines share: the call of a tool,
// its result and its failure. Webhooks ([talaria/session/webhook]) and MCP servers ([talaria/session/mcpclient]) are
// such providers.
package remote

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"time"
	"unicode/utf8"

	"talaria/api"
)

// Bounds of every call.
const (
	MaxResult = 16 << 20        // bytes of a result as JSON
	MaxTime   = 5 * time.Minute // of a call whose context has no earlier deadline
)

// Call is the call of a tool.
type Call struct {
	ID          string // the call_id; a receiver that gets one twice has got the same call twice
	SessionID   string
	ExecutionID string
	Tool        string
	Arguments   api.Raw              // a JSON object
	Deadline    time.Time            // when the caller gives up, unless a person is asked meanwhile: then later
	Progress    func(message string) // takes news of the call while it runs; may be nil. It must not block
	// Ask asks a person a question of the provider, which is not trusted, and waits. The error is nil for a yes; ctx
	// withdraws the question. It may be nil: nobody can be asked.
	Ask func(ctx context.Context, question string) error
}

// Result is what a tool returned.
type Result struct {
	Value    api.Raw   // the JSON that the cell gets
	Displays []Display // pictures and sounds that the tool returned besides
}

// Display is rich output of a tool, to be shown in the cell that made the call.
type Display struct {
	MediaType string
	Data      []byte
}

// The codes of a [Failure] that have an exception of their own inside: ToolUnavailable, ToolTimeout, ToolLimit and
// ProviderGone. Every other code is a ToolError.
const (
	CodeUnavailable  = "unavailable"   // the provider was not reached; the call was not made
	CodeTimeout      = "timeout"       // the call's deadline passed
	CodeLimit        = "limit"         // a limit was reached, such as the size of a result
	CodeProviderGone = "provider_gone" // the connection broke after the call was sent; it may have been made
)

// Codes of a [Failure] that are a ToolError inside.
const (
	CodeToolError      = "tool_error"      // the tool reports an error without a code
	CodeInvalidAnswer  = "invalid_answer"  // the provider answered with something other than a result
	CodeRefusedAddress = "refused_address" // the address is one that tools must not reach
	CodeCancelled      = "cancelled"       // nobody waits for the call any more
)

// Failure is the error of a call.
type Failure struct {
	Code    string
	Message string
}

func (f *Failure) Error() string { return f.Code + ": " + f.Message }

// Failuref returns a failure with a formatted message.
func Failuref(code, format string, args ...any) *Failure {
	return &Failure{Code: code, Message: fmt.Sprintf(format, args...)}
}

// maxMessage bounds the message of a failure in bytes.
const maxMessage = 16 << 10

var codePattern = regexp.MustCompile(`^[a-z][a-z0-9_]{0,63}$`)

// ReportedFailure returns the failure that a tool reported itself. A code that is not a word of lower-case letters, digits
// and underscores becomes tool_error, and a long message is cut.
func ReportedFailure(code, message string) *Failure {
	if !codePattern.MatchString(code) {
		code = CodeToolError
	}
	message = strings.ToValidUTF8(message, "\uFFFD")
	if len(message) > maxMessage {
		cut := maxMessage
		for !utf8.RuneStart(message[cut]) {
			cut--
		}
		message = message[:cut] + "…"
	}
	return &Failure{Code: code, Message: message}
}
