// Command talaria is the whole program: the server, and the commands that talk to it. It is the only place that wires
// the packages together.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"syscall"

	"github.com/spf13/cobra"
)

// program is what the user typed to start it, such as bin/talaria, for commands that a message suggests.
var program = "talaria"

func main() {
	program = startedAs(os.Args[0])
	inheritNoIgnored()
	stop, err := profile()
	if err == nil {
		err = traceSteps()
	}
	if err == nil {
		ctx := untilSignal()
		err = endedBy(ctx, command().ExecuteContext(ctx))
		stop()
	}
	if err == nil {
		return
	}
	if message := messageOf(err); message != "" {
		fmt.Fprintln(os.Stderr, "talaria:", message)
	}
	os.Exit(statusOf(err))
}

// inheritNoIgnored keeps signals that this program ignores, as nohup has it do, from being ignored by what it starts: a closed
// terminal could not end what runs in it. A signal with a handler has its default action in a new program.
func inheritNoIgnored() {
	for _, s := range []os.Signal{syscall.SIGHUP, syscall.SIGQUIT} {
		if signal.Ignored(s) {
			signal.Notify(make(chan os.Signal, 1), s)
		}
	}
}

// startedAs is how to start the program again: as it was, or by its name alone if that finds it.
func startedAs(arg string) string {
	name := filepath.Base(arg)
	if found, err := exec.LookPath(name); err == nil && found == arg {
		return name
	}
	return arg
}

// signalled is the cause of a context that a signal ended.
type signalled struct{ syscall.Signal }

func (s signalled) Error() string {
	if s.Signal == syscall.SIGINT {
		return "interrupted"
	}
	return s.String()
}

// status is what a shell shows for a program that the signal ended.
func (s signalled) status() int { return 128 + int(s.Signal) }

// endings are the signals that end the program in order, besides SIGINT.
var endings = endingSignals()

// endingSignals are SIGTERM and, unless nohup has the program ignore it, the SIGHUP of a terminal that closes.
func endingSignals() []os.Signal {
	if signal.Ignored(syscall.SIGHUP) {
		return []os.Signal{syscall.SIGTERM}
	}
	return []os.Signal{syscall.SIGTERM, syscall.SIGHUP}
}

// untilSignal is a context that the first SIGINT or ending signal ends. The second one ends the program.
func untilSignal() context.Context {
	ctx, cancel := context.WithCancelCause(context.Background())
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, append(endings, syscall.SIGINT)...)
	go func() {
		cancel(signalled{(<-signals).(syscall.Signal)})
		signal.Stop(signals)
	}()
	return ctx
}

// endedBy returns the signal that ended ctx instead of an error that says no more than that ctx has ended.
func endedBy(ctx context.Context, err error) error {
	var cause signalled
	if errors.Is(err, context.Canceled) && errors.As(context.Cause(ctx), &cause) {
		return cause
	}
	return err
}

// The groups of commands in the help of the root.
const (
	groupRun    = "run"
	groupManage = "manage"
	groupServer = "server"
)

func command() *cobra.Command {
	root := &cobra.Command{
		Use:         "talaria",
		Short:       "Live, isolated Python sessions for chat UIs, notebooks, bots and agents",
		Version:     fullVersion(),
		Annotations: map[string]string{cobra.CommandDisplayNameAnnotation: program},
		Example: `  talaria serve
  talaria exec -c 'print(6 * 7)'
  talaria repl --session work`,
		Args:          arguments(0, 0),
		RunE:          nextStep,
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.SetVersionTemplate("talaria {{.Version}}\n")
	root.SetFlagErrorFunc(usageOf)
	root.PersistentFlags().String("config", "", "configuration file (YAML); default: talaria.yaml in the state directory")
	root.PersistentFlags().String("state-dir", defaultStateDir(), "directory that holds all of the server's data")
	root.AddGroup(&cobra.Group{ID: groupRun, Title: "Run code:"}, &cobra.Group{ID: groupManage, Title: "Manage sessions:"},
		&cobra.Group{ID: groupServer, Title: "Run the server:"})
	add := func(group string, commands ...*cobra.Command) {
		for _, cmd := range commands {
			cmd.GroupID = group
			root.AddCommand(cmd)
		}
	}
	add(groupRun, execCommand(), batchCommand(), replCommand(), attachCommand(), openCommand())
	add(groupManage, sessionsCommand(), filesCommand(), packagesCommand(), checkpointCommand(), rollbackCommand(), forkCommand(), hibernateCommand(),
		wakeCommand(), logsCommand(), exportCommand())
	add(groupServer, serveCommand(), hostCommand(), configCommand(), doctorCommand(), tokenCommand(), urlCommand(), mcpCommand(), jupyterCommand(), gatewayCommand(),
		versionCommand())
	root.SetHelpCommandGroupID(groupServer)
	root.SetCompletionCommandGroupID(groupServer)
	nameInHelp(root)
	return root
}

// nameInHelp has the help of all commands call the program by the name that it was started by.
func nameInHelp(cmd *cobra.Command) {
	cmd.Example = ownCommand.ReplaceAllLiteralString(cmd.Example, program+" ")
	cmd.Long = ownCommand.ReplaceAllLiteralString(cmd.Long, program+" ")
	for _, sub := range cmd.Commands() {
		nameInHelp(sub)
	}
}

var ownCommand = regexp.MustCompile(`\btalaria `)

// nextStep is what talaria alone says.
func nextStep(cmd *cobra.Command, _ []string) error {
	out := cmd.OutOrStdout()
	fmt.Fprintf(out, "talaria %s: %s\n\n", fullVersion(), cmd.Short)
	if c, err := connect(cmd); err == nil && c.Healthy(cmd.Context()) == nil {
		fmt.Fprintf(out, "A server is running at %s.\n  %[2]s open                    open the notebook page\n"+
			"  %[2]s exec -c 'print(6 * 7)'  run a cell\n", c.url, program)
	} else {
		fmt.Fprintf(out, "No server is running. Start one:\n  %s serve\n", program)
	}
	_, err := fmt.Fprintf(out, "\n%s --help lists all commands.\n", program)
	return err
}
