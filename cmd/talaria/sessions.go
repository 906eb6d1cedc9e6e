package main

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"talaria/api"
	"talaria/client"
)

func sessionsCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "sessions",
		Short: "List, create, reset and delete sessions",
		Example: `  talaria sessions
  talaria sessions new work --memory 4GiB --package requests
  talaria sessions show work --json
  talaria sessions rm work`,
		Args: arguments(0, 0),
		RunE: withServer(listSessions),
	}
	cmd.PersistentFlags().Bool("json", false, "print JSON")
	addConnection(cmd)
	list := &cobra.Command{Use: "ls", Aliases: []string{"list"}, Short: "List your sessions", Args: arguments(0, 0), RunE: withServer(listSessions)}
	show := &cobra.Command{Use: "show ID", Short: "Show one session", Args: arguments(1, 1), RunE: withServer(showSession)}
	create := &cobra.Command{
		Use: "new [ID]", Aliases: []string{"create"}, Short: "Create a session and print its id", Args: arguments(0, 1), RunE: withServer(newSession),
		Example: `  talaria sessions new work --cpus 2 --memory 4GiB
  talaria sessions new --allow pypi.org:443 --limit execution_timeout_s=60`,
	}
	addSessionFlags(create.Flags())
	cmd.AddCommand(list, show, create,
		sessionAction("rm", "delete", "Delete sessions with their files and history", func(cmd *cobra.Command, c *connection, id string) (string, error) {
			return "deleted", c.DeleteSession(cmd.Context(), id)
		}),
		sessionAction("reset", "restart", "Restart Python in sessions; files and history are kept", func(cmd *cobra.Command, c *connection, id string) (string, error) {
			s, err := c.ResetSession(cmd.Context(), id, api.ResetRequest{})
			return fmt.Sprintf("reset: kernel %d is running; variables are gone, files and history are kept", s.Kernel.Generation), err
		}),
		sessionAction("interrupt", "stop", "Interrupt the running cells of sessions and cancel waiting ones", func(cmd *cobra.Command, c *connection, id string) (string, error) {
			return "interrupted; variables are kept", c.Interrupt(cmd.Context(), id, "")
		}))
	return cmd
}

func asJSON(cmd *cobra.Command) bool { on, _ := cmd.Flags().GetBool("json"); return on }

func listSessions(cmd *cobra.Command, c *connection, _ []string) error {
	all, err := allSessions(cmd, c)
	switch {
	case err != nil:
		return err
	case asJSON(cmd):
		return printJSON(cmd.OutOrStdout(), all)
	case len(all) == 0:
		_, err := fmt.Fprintf(cmd.OutOrStdout(), "no sessions; %s sessions new NAME creates one\n", program)
		return err
	}
	return printSessions(cmd.OutOrStdout(), all)
}

func allSessions(cmd *cobra.Command, c *connection) ([]api.Session, error) {
	all := []api.Session{}
	for f := (client.SessionFilter{}); ; {
		page, err := c.Sessions(cmd.Context(), f)
		if err != nil {
			return nil, err
		}
		all = append(all, page.Items...)
		if f.Page.Cursor = page.NextCursor; f.Page.Cursor == "" {
			return all, nil
		}
	}
}

func printSessions(w io.Writer, all []api.Session) error {
	t := newTable(w, "ID", "STATE", "CELLS", "KERNEL", "MEMORY", "DISK", "LAST USED")
	for _, s := range all {
		t.row(s.ID, stateOf(s), fmt.Sprint(s.ExecutionCount), fmt.Sprint(s.Kernel.Generation),
			size(s.Usage.MemoryBytes), size(s.Usage.DiskBytes), time.Since(s.LastActiveAt.Time).Round(time.Second).String()+" ago")
	}
	return t.flush()
}

func stateOf(s api.Session) string {
	if s.Reason != "" {
		return string(s.State) + " (" + s.Reason + ")"
	}
	return string(s.State)
}

func showSession(cmd *cobra.Command, c *connection, args []string) error {
	s, err := c.Session(cmd.Context(), args[0])
	if err != nil {
		return err
	}
	return describeSession(cmd, s)
}

func describeSession(cmd *cobra.Command, s api.Session) error {
	if asJSON(cmd) {
		return printJSON(cmd.OutOrStdout(), s)
	}
	t := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
	line := func(name, format string, args ...any) {
		fmt.Fprintf(t, "%s\t"+format+"\n", append([]any{name}, args...)...)
	}
	line("id", "%s", s.ID)
	line("name", "%s", escapeControls(s.Name, `\x%02x`))
	line("state", "%s", stateOf(s))
	line("python", "%s (%s), environment %s, kernel %d", s.Kernel.Python, s.Kernel.Engine, s.Environment, s.Kernel.Generation)
	line("cells", "%d", s.ExecutionCount)
	line("memory", "%s of %s", size(s.Usage.MemoryBytes), size(s.Limits.MemoryBytes))
	line("disk", "%s of %s", size(s.Usage.DiskBytes), size(s.Limits.DiskBytes))
	line("cpus", "%g", s.Limits.CPUs)
	if s.Limits.ExecutionTimeoutS > 0 {
		line("timeout", "%g s", s.Limits.ExecutionTimeoutS)
	} else {
		line("timeout", "none")
	}
	line("network", "%s", strings.TrimSpace(string(s.Network.Mode)+" "+strings.Join(s.Network.Allow, ", ")))
	line("isolation", "%s", s.Isolation.Tier)
	line("created", "%s", s.CreatedAt.Format(time.RFC3339))
	line("last used", "%s", s.LastActiveAt.Format(time.RFC3339))
	if s.ReapAt != nil {
		what := "hibernates"
		if s.OnIdle == api.OnIdleDrop {
			what = "stops"
		}
		line(what, "%s, unless it is used before then", s.ReapAt.Format(time.RFC3339))
	}
	return t.Flush()
}

func newSession(cmd *cobra.Command, c *connection, args []string) error {
	req, err := sessionRequest(cmd)
	if err != nil {
		return err
	}
	if len(args) > 0 {
		req.ID = &args[0]
	}
	s, err := c.CreateSession(cmd.Context(), req)
	if err != nil {
		return err
	}
	if asJSON(cmd) {
		return printJSON(cmd.OutOrStdout(), s)
	}
	_, err = fmt.Fprintln(cmd.OutOrStdout(), s.ID)
	return err
}

// sessionAction is a command that does something to each of the sessions that are named, and says what it did.
func sessionAction(name, alias, short string, do func(*cobra.Command, *connection, string) (string, error)) *cobra.Command {
	return &cobra.Command{
		Use: name + " ID...", Aliases: []string{alias}, Short: short, Args: arguments(1, -1),
		RunE: withServer(func(cmd *cobra.Command, c *connection, ids []string) (failed error) {
			type done struct {
				ID     string `json:"id"`
				Result string `json:"result"`
			}
			all := []done{}
			for _, id := range ids {
				result, err := do(cmd, c, id)
				if err != nil {
					failed = fmt.Errorf("%s: %w", id, err)
					break
				}
				if all = append(all, done{id, result}); !asJSON(cmd) {
					fmt.Fprintf(cmd.OutOrStdout(), "%s: %s\n", id, result)
				}
			}
			if asJSON(cmd) {
				return errors.Join(failed, printJSON(cmd.OutOrStdout(), all))
			}
			return failed
		}),
	}
}

// size is a number of bytes for people.
func size(n int64) string {
	switch {
	case n >= 1<<30:
		return fmt.Sprintf("%.1f GiB", float64(n)/(1<<30))
	case n >= 1<<20:
		return fmt.Sprintf("%.0f MiB", float64(n)/(1<<20))
	case n >= 1<<10:
		return fmt.Sprintf("%.0f KiB", float64(n)/(1<<10))
	}
	return fmt.Sprintf("%d B", n)
}
