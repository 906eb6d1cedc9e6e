// Command talaria is the whole program: the server, and the commands that talk to it. It is the only place that wires
// the packages together.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
)

// version is set by the linker.
var version = "dev"

// exitError ends the program with a status and no message of its own.
type exitError int

func (e exitError) Error() string { return fmt.Sprintf("exit status %d", int(e)) }

func main() {
	stop, err := profile()
	if err == nil {
		err = command().ExecuteContext(untilSignal())
		stop()
	}
	var exit exitError
	switch {
	case errors.As(err, &exit):
		os.Exit(int(exit))
	case err != nil:
		fmt.Fprintln(os.Stderr, "talaria:", err)
		os.Exit(1)
	}
}

// signalled is the cause of a context that a signal ended.
type signalled struct{ os.Signal }

func (s signalled) Error() string { return s.String() }

// untilSignal is a context that the first SIGINT or SIGTERM ends. The second one ends the program.
func untilSignal() context.Context {
	ctx, cancel := context.WithCancelCause(context.Background())
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		cancel(signalled{<-signals})
		signal.Stop(signals)
	}()
	return ctx
}

func command() *cobra.Command {
	root := &cobra.Command{
		Use:           "talaria",
		Short:         "Live Python sessions, isolated, for chat UIs, notebooks, bots and agents",
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.CompletionOptions.HiddenDefaultCmd = true
	root.PersistentFlags().String("config", "", "configuration file (YAML); default: talaria.yaml in the state directory")
	root.PersistentFlags().String("state-dir", defaultStateDir(), "where everything is kept")
	root.AddCommand(serveCommand(), hostCommand(), execCommand(), sessionsCommand(), tokenCommand(), urlCommand(), doctorCommand(), configCommand(), versionCommand())
	return root
}

func versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  cobra.NoArgs,
		Run:   func(cmd *cobra.Command, _ []string) { fmt.Fprintln(cmd.OutOrStdout(), "talaria", version) },
	}
}
