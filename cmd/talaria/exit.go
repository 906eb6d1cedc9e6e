package main

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"talaria/api"
)

// The statuses that the program exits with. docs/cli.md lists them.
const (
	exitFailed      = 1   // the cell raised, the server refused, or something else failed
	exitUsage       = 2   // the command line is wrong; nothing was done
	exitUnreachable = 3   // no server answers
	exitTimeout     = 124 // the cell ran past its timeout
	exitInterrupted = 130 // the cell was interrupted
	exitDied        = 137 // the cell's kernel died
)

// exitError ends the program with a status and no message of its own.
type exitError int

func (e exitError) Error() string { return fmt.Sprintf("exit status %d", int(e)) }

// usageError is a mistake on the command line.
type usageError struct{ message string }

func (e usageError) Error() string { return e.message }

func usagef(format string, args ...any) error { return usageError{fmt.Sprintf(format, args...)} }

// unreachableError says that no server answers.
type unreachableError struct {
	message string
	cause   error
}

func (e unreachableError) Error() string { return e.message }
func (e unreachableError) Unwrap() error { return e.cause }

// localError is a failure of something on this machine, which the errors of a call may wrap.
type localError struct {
	message string
	cause   error
}

func (e localError) Error() string { return e.message }
func (e localError) Unwrap() error { return e.cause }

// statusOf is the status to exit with after an error.
func statusOf(err error) int {
	var exit exitError
	var cause signalled
	switch {
	case errors.As(err, &exit):
		return int(exit)
	case errors.As(err, &cause):
		return cause.status()
	case errors.As(err, new(usageError)):
		return exitUsage
	case errors.As(err, new(unreachableError)):
		return exitUnreachable
	}
	return exitFailed
}

// messageOf is what to say about an error, "" where it was said already.
func messageOf(err error) string {
	refused := new(api.Error)
	switch {
	case errors.As(err, new(exitError)):
		return ""
	case errors.As(err, &refused) && refused.Code == api.CodeUnauthorized:
		return err.Error() + "; pass another with --token or TALARIA_TOKEN"
	}
	return err.Error()
}

// reached explains an error of a call to the server at an address.
func reached(address string, err error) error {
	var network *net.OpError
	var name *net.DNSError
	var call *url.Error
	var authority x509.UnknownAuthorityError
	var local localError
	switch {
	case err == nil, errors.Is(err, context.Canceled), errors.As(err, new(*api.Error)), errors.As(err, new(exitError)):
		return err
	case errors.As(err, &local):
		return local
	case errors.As(err, &name):
		return unreachableError{fmt.Sprintf("cannot reach %s (no such host: %s): is the address right?", address, name.Name), err}
	case errors.As(err, &authority):
		return unreachableError{fmt.Sprintf("cannot reach %s (its certificate is not trusted: %v)", address, authority), err}
	case errors.As(err, &network), errors.As(err, &call), errors.Is(err, syscall.ECONNREFUSED):
		return unreachableError{fmt.Sprintf("cannot reach %s (%s): is %s serve running there?", address, shortly(err), filepath.Base(program)), err}
	}
	return err
}

// shortly is the last part of a network error: connection refused.
func shortly(err error) string {
	var errno syscall.Errno
	if errors.As(err, &errno) {
		return errno.Error()
	}
	text := err.Error()
	return text[strings.LastIndex(text, ": ")+1:]
}

// arguments takes from least to most positional arguments; most below 0 means any number.
func arguments(least, most int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) < least:
			return usagef("an argument is missing; usage: %s", cmd.UseLine())
		case most >= 0 && len(args) > most && cmd.HasSubCommands():
			return unknownCommand(cmd, args[most])
		case most >= 0 && len(args) > most:
			return usagef("unexpected argument %q; usage: %s", args[most], cmd.UseLine())
		}
		return nil
	}
}

func unknownCommand(cmd *cobra.Command, name string) error {
	known := map[string]bool{}
	for _, c := range cmd.Commands() {
		if c.IsAvailableCommand() {
			known[c.Name()] = true
		}
	}
	hint := suggestion(name, known, "; "+cmd.CommandPath()+" --help lists the commands")
	return usagef("unknown command %q for %q%s", name, cmd.CommandPath(), hint)
}

// usageOf makes the errors of flags say where to read more.
func usageOf(cmd *cobra.Command, err error) error {
	return usagef("%v; see %s --help", err, cmd.CommandPath())
}
