package sandbox_test

import (
	"errors"
	"strings"
	"syscall"
	"testing"

	"talaria/kernel"
)

// sealed returns a sandbox in which programs can be started.
func sealed(t *testing.T) kernel.Sandbox {
	t.Helper()
	dir := stateDir(t)
	s := create(t, newBackend(t, dir), environment(t), false)
	if err := s.Seal(t.Context(), newSpec(t, dir)); err != nil {
		t.Fatal(err)
	}
	return s
}

func TestAProgramWithALongNameDoesNotEndTheSandbox(t *testing.T) {
	s := sealed(t)
	p, err := s.Start(t.Context(), kernel.Program{Args: []string{strings.Repeat("x", 100<<10)}})
	if err == nil {
		closeStreams(p)
	}
	if !errors.Is(err, syscall.ENAMETOOLONG) {
		t.Errorf("a name of 100 KiB: %.200v", err)
	}
	p, err = s.Start(t.Context(), kernel.Program{Args: []string{"/bin/true"}})
	if err != nil {
		t.Fatalf("another program: %v", err)
	}
	defer closeStreams(p)
	<-p.Done()
}

func TestAnArgumentMayBeMarkup(t *testing.T) {
	s := sealed(t)
	p, err := s.Start(t.Context(), kernel.Program{Args: []string{"/bin/true", strings.Repeat("<b>&amp;", 100<<10/8)}})
	if err != nil {
		t.Fatal(err)
	}
	defer closeStreams(p)
	if <-p.Done(); p.Exit() != (kernel.Exit{}) {
		t.Errorf("it ended with %+v", p.Exit())
	}
}
