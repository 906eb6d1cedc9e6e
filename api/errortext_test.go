package api_test

import (
	"testing"

	"talaria/api"
)

func TestAnErrorWithoutACodeSaysOnlyWhatHappened(t *testing.T) {
	if got := (&api.Error{Detail: "status 502: bad gateway"}).Error(); got != "status 502: bad gateway" {
		t.Errorf("%q", got)
	}
	if got := api.Errorf(api.CodeNotFound, "no such file").Error(); got != "not_found: no such file" {
		t.Errorf("%q", got)
	}
}
