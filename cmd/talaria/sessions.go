package main

import (
	"context"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"talaria/api"
	"talaria/client"
)

func sessionsCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "sessions",
		Short: "List your sessions",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := connect(cmd)
			if err != nil {
				return err
			}
			all, err := allSessions(cmd.Context(), c)
			if err != nil {
				return err
			}
			if asJSON {
				line, err := api.Marshal(all)
				fmt.Fprintf(cmd.OutOrStdout(), "%s\n", line)
				return err
			}
			return printSessions(cmd.OutOrStdout(), all)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print them as JSON")
	addConnection(cmd)
	cmd.AddCommand(
		sessionAction("delete", "End sessions: kernel, files and history go", func(ctx context.Context, c *client.Client, id string) error {
			return c.DeleteSession(ctx, id)
		}),
		sessionAction("reset", "Give sessions a fresh kernel; files and history stay", func(ctx context.Context, c *client.Client, id string) error {
			_, err := c.ResetSession(ctx, id, api.ResetRequest{})
			return err
		}),
		sessionAction("interrupt", "Interrupt what runs in sessions", func(ctx context.Context, c *client.Client, id string) error {
			return c.Interrupt(ctx, id, "")
		}),
	)
	return cmd
}

func sessionAction(name, short string, do func(context.Context, *client.Client, string) error) *cobra.Command {
	return &cobra.Command{
		Use:   name + " ID...",
		Short: short,
		Args:  cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, ids []string) error {
			c, err := connect(cmd)
			if err != nil {
				return err
			}
			for _, id := range ids {
				if err := do(cmd.Context(), c, id); err != nil {
					return fmt.Errorf("%s: %w", id, err)
				}
			}
			return nil
		},
	}
}

func allSessions(ctx context.Context, c *client.Client) ([]api.Session, error) {
	all := []api.Session{}
	for f := (client.SessionFilter{}); ; {
		page, err := c.Sessions(ctx, f)
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
	if len(all) == 0 {
		_, err := fmt.Fprintln(w, "no sessions; talaria exec --session NAME makes one")
		return err
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "ID\tSTATE\tCELLS\tKERNEL\tMEMORY\tDISK\tLAST USED")
	for _, s := range all {
		state := string(s.State)
		if s.Reason != "" {
			state += " (" + s.Reason + ")"
		}
		fmt.Fprintf(t, "%s\t%s\t%d\t%d\t%s\t%s\t%s ago\n", s.ID, state, s.ExecutionCount, s.Kernel.Generation,
			size(s.Usage.MemoryBytes), size(s.Usage.DiskBytes), time.Since(s.LastActiveAt.Time).Round(time.Second))
	}
	return t.Flush()
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
