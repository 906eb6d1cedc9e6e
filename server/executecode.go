package server

import (
	"errors"
	"strings"

	"talaria/api"
)

// executeCode names the tool that a language model runs Python with.
const executeCode = "execute_code"

// isExecuteCode reports whether the client asks for the tool's result in place of the execution.
func isExecuteCode(c *call) (bool, error) {
	format, given, err := c.value("format")
	if err == nil && given && format != executeCode {
		err = badQuery("format", "not execute_code")
	}
	return given, err
}

func asExecuteCode(e api.Execution) any { return api.ExecuteCode(e) }

// checkedExecuteCode adds to what is wrong with a request which argument a model has to use: it often sends none, an empty
// one, or a shell command.
func checkedExecuteCode(read func() (api.ExecutionRequest, error)) func() (api.ExecutionRequest, error) {
	return func() (api.ExecutionRequest, error) {
		req, err := read()
		if err == nil && (req.Code == nil || strings.TrimSpace(*req.Code) == "") {
			err = api.Errorf(api.CodeInvalidRequest, "field \"code\" is missing or blank")
		}
		var refused *api.Error
		if errors.As(err, &refused) && refused.Code == api.CodeInvalidRequest {
			err = api.Errorf(api.CodeInvalidRequest, "%s; %s", refused.Detail, api.ExecuteCodeAdvice)
		}
		return req, err
	}
}
