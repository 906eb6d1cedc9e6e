package session

import (
	"talaria/api"
)

const (
	maxExpressions    = 100
	maxExpressionsLen = 64 << 10 // bytes of all names and sources
)

func checkExpressions(list map[string]string) error {
	size := 0
	for name, source := range list {
		size += len(name) + len(source)
	}
	if len(list) > maxExpressions || size > maxExpressionsLen {
		return api.Errorf(api.CodePayloadTooLarge, "user_expressions may have at most %d expressions, with %d bytes in total", maxExpressions, maxExpressionsLen)
	}
	return nil
}
