package api

import (
	"fmt"
	"net/http"
)

// Code is the stable, machine-readable word of an error.
type Code string

// The error codes. Each has one HTTP status, in [Code.Status].
const (
	CodeInvalidRequest       Code = "invalid_request"
	CodeUnauthorized         Code = "unauthorized"
	CodeOriginNotAllowed     Code = "origin_not_allowed"
	CodeForbidden            Code = "forbidden"
	CodePathOutside          Code = "path_outside_workspace"
	CodeReadOnly             Code = "read_only"
	CodeMountNotAllowed      Code = "mount_not_allowed"
	CodeNotFound             Code = "not_found"
	CodeSessionNotFound      Code = "session_not_found"
	CodeExecutionNotFound    Code = "execution_not_found"
	CodeArtifactNotFound     Code = "artifact_not_found"
	CodeFileNotFound         Code = "file_not_found"
	CodeTerminalNotFound     Code = "terminal_not_found"
	CodeCheckpointNotFound   Code = "checkpoint_not_found"
	CodeCheckpointGone       Code = "checkpoint_gone"
	CodeBatchNotFound        Code = "batch_not_found"
	CodeMethodNotAllowed     Code = "method_not_allowed"
	CodeSessionExists        Code = "session_exists"
	CodeSessionConflict      Code = "session_conflict"
	CodeExecutionConflict    Code = "execution_conflict"
	CodeGuardRepeatedFailure Code = "guard_repeated_failure"
	CodeLogChanged           Code = "log_changed"
	CodeNeedsReset           Code = "needs_reset"
	CodeNoInputPending       Code = "no_input_pending"
	CodeNoCallPending        Code = "no_call_pending"
	CodeNoApprovalPending    Code = "no_approval_pending"
	CodeApprovalDenied       Code = "approval_denied"
	CodeNoKernel             Code = "no_kernel"
	CodeKernelBusy           Code = "kernel_busy"
	CodeTableGone            Code = "table_gone"
	CodeNotSortable          Code = "not_sortable"
	CodeNotAFile             Code = "not_a_file"
	CodeEventsExpired        Code = "events_expired"
	CodePreconditionFailed   Code = "precondition_failed"
	CodeRevisionConflict     Code = "revision_conflict"
	CodePayloadTooLarge      Code = "payload_too_large"
	CodeUnsupportedMedia     Code = "unsupported_media_type"
	CodeNotAcceptable        Code = "not_acceptable"
	CodeRangeInvalid         Code = "range_not_satisfiable"
	CodeLimitExceeded        Code = "limit_exceeded"
	CodeLanguageUnavailable  Code = "language_unavailable"
	CodeQueueFull            Code = "queue_full"
	CodeSessionLimit         Code = "session_limit"
	CodeTooManyRequests      Code = "too_many_requests"
	CodeBudgetExhausted      Code = "budget_exhausted"
	CodeInternal             Code = "internal_error"
	CodeNotImplemented       Code = "not_implemented"
	CodeKernelStart          Code = "kernel_start_failed"
	CodeShuttingDown         Code = "shutting_down"
	CodeNotReady             Code = "not_ready"
	CodeDiskLimit            Code = "disk_limit"
	CodeDiskFull             Code = "disk_full"
)

var statuses = map[Code]int{
	CodeInvalidRequest:       http.StatusBadRequest,
	CodeUnauthorized:         http.StatusUnauthorized,
	CodeOriginNotAllowed:     http.StatusForbidden,
	CodeForbidden:            http.StatusForbidden,
	CodePathOutside:          http.StatusForbidden,
	CodeReadOnly:             http.StatusForbidden,
	CodeMountNotAllowed:      http.StatusForbidden,
	CodeNotFound:             http.StatusNotFound,
	CodeSessionNotFound:      http.StatusNotFound,
	CodeExecutionNotFound:    http.StatusNotFound,
	CodeArtifactNotFound:     http.StatusNotFound,
	CodeFileNotFound:         http.StatusNotFound,
	CodeTerminalNotFound:     http.StatusNotFound,
	CodeCheckpointNotFound:   http.StatusNotFound,
	CodeCheckpointGone:       http.StatusConflict,
	CodeBatchNotFound:        http.StatusNotFound,
	CodeMethodNotAllowed:     http.StatusMethodNotAllowed,
	CodeNotAcceptable:        http.StatusNotAcceptable,
	CodeSessionExists:        http.StatusConflict,
	CodeSessionConflict:      http.StatusConflict,
	CodeExecutionConflict:    http.StatusConflict,
	CodeGuardRepeatedFailure: http.StatusConflict,
	CodeLogChanged:           http.StatusConflict,
	CodeNeedsReset:           http.StatusConflict,
	CodeNoInputPending:       http.StatusConflict,
	CodeNoCallPending:        http.StatusConflict,
	CodeNoApprovalPending:    http.StatusConflict,
	CodeApprovalDenied:       http.StatusForbidden,
	CodeNoKernel:             http.StatusConflict,
	CodeTableGone:            http.StatusConflict,
	CodeNotSortable:          http.StatusConflict,
	CodeKernelBusy:           http.StatusConflict,
	CodeNotAFile:             http.StatusConflict,
	CodeEventsExpired:        http.StatusGone,
	CodePreconditionFailed:   http.StatusPreconditionFailed,
	CodeRevisionConflict:     http.StatusPreconditionFailed,
	CodePayloadTooLarge:      http.StatusRequestEntityTooLarge,
	CodeUnsupportedMedia:     http.StatusUnsupportedMediaType,
	CodeRangeInvalid:         http.StatusRequestedRangeNotSatisfiable,
	CodeLimitExceeded:        http.StatusUnprocessableEntity,
	CodeLanguageUnavailable:  http.StatusUnprocessableEntity,
	CodeQueueFull:            http.StatusTooManyRequests,
	CodeSessionLimit:         http.StatusTooManyRequests,
	CodeTooManyRequests:      http.StatusTooManyRequests,
	CodeBudgetExhausted:      http.StatusTooManyRequests,
	CodeInternal:             http.StatusInternalServerError,
	CodeNotImplemented:       http.StatusNotImplemented,
	CodeKernelStart:          http.StatusServiceUnavailable,
	CodeShuttingDown:         http.StatusServiceUnavailable,
	CodeNotReady:             http.StatusServiceUnavailable,
	CodeDiskLimit:            http.StatusInsufficientStorage,
	CodeDiskFull:             http.StatusInsufficientStorage,
}

// Status is the HTTP status that goes with the code, 500 for a code that is not listed.
func (c Code) Status() int {
	if s, ok := statuses[c]; ok {
		return s
	}
	return http.StatusInternalServerError
}

// Error is a problem as RFC 9457 has it, with a code. Detail is for people: what happened and what to do; it
// never holds a host path or a stack. An Error is made by [Errorf] and is not changed afterwards.
type Error struct {
	Type   string `json:"type"`
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail"`
	Code   Code   `json:"code"`

	// Document is the present one, where another revision was to be replaced.
	Document *Document `json:"document,omitzero"`
}

// Errorf makes the error of that code, with its status and title.
func Errorf(code Code, format string, args ...any) *Error {
	status := code.Status()
	return &Error{
		Type:   "about:blank",
		Title:  http.StatusText(status),
		Status: status,
		Detail: fmt.Sprintf(format, args...),
		Code:   code,
	}
}

// Invalid is Errorf with [CodeInvalidRequest].
func Invalid(format string, args ...any) *Error { return Errorf(CodeInvalidRequest, format, args...) }

// Set sets a value to what a request gives for it, if it gives something.
func Set[T any](into, given *T) {
	if given != nil {
		*into = *given
	}
}

func (e *Error) Error() string {
	if e.Code == "" { // of something between client and server
		return e.Detail
	}
	return fmt.Sprintf("%s: %s", e.Code, e.Detail)
}

// Is makes errors.Is(err, api.Errorf(code, "")) compare codes only.
func (e *Error) Is(target error) bool {
	t, ok := target.(*Error)
	return ok && t.Code == e.Code
}
