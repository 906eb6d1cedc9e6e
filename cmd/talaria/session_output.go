package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"strings"

	"github.com/spf13/cobra"

	"talaria/api"
	"talaria/client"
)

func logsCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "logs SESSION", Short: "Print a session's cells and their output", Args: arguments(1, 1),
		Example: `  talaria logs work
  talaria logs work --follow
  talaria logs work --json | jq .type`,
		RunE: withServer(func(cmd *cobra.Command, c *connection, args []string) error {
			follow, _ := cmd.Flags().GetBool("follow")
			after, _ := cmd.Flags().GetInt64("after")
			if !cmd.Flags().Changed("after") {
				s, err := c.Session(cmd.Context(), args[0])
				if err != nil {
					return err
				}
				after = oldest(s, cmd.ErrOrStderr())
			}
			view := newViewer(cmd, c)
			for event, err := range c.Events(cmd.Context(), args[0], client.EventsQuery{After: after, Past: !follow}) {
				if cmd.Context().Err() != nil {
					return nil
				}
				if err != nil {
					return err
				}
				if err := view.event(cmd.Context(), event); err != nil {
					return err
				}
			}
			return nil
		}),
	}
	cmd.Flags().BoolP("follow", "f", false, "follow new events until Ctrl-C")
	cmd.Flags().Int64("after", 0, "start after the event with this number")
	addJSON(cmd)
	addConnection(cmd)
	return cmd
}

// oldest is the position before the oldest event that the log still has, and says where there were others.
func oldest(s api.Session, stderr io.Writer) (after int64) {
	if s.FirstSeq > 1 {
		fmt.Fprintf(stderr, "talaria: the log of session %s begins with event %d; what is older was deleted to save space\n", s.ID, s.FirstSeq)
	}
	return max(s.FirstSeq-1, 0)
}

// viewer prints a session's log.
type viewer struct {
	execution
}

func newViewer(cmd *cobra.Command, c *connection) *viewer {
	v := &viewer{execution{client: c.Client, json: asJSON(cmd), pictures: program + " export saves it"}}
	v.out, v.err = v.screen(cmd.OutOrStdout()), v.screen(cmd.OutOrStdout())
	return v
}

// event prints an event; it answers no question.
func (v *viewer) event(ctx context.Context, event api.Event) error {
	if v.json {
		return errors.Join(v.printEvent(event), v.failed)
	}
	decoded, err := event.Decoded()
	if err != nil {
		return err
	}
	switch b := decoded.Body.(type) {
	case api.ExecutionStarted:
		count := " " // of cells that the server runs, such as installations
		if b.ExecutionCount != nil {
			count = fmt.Sprint(*b.ExecutionCount)
		}
		v.print(v.out, styled(v.out.Writer, bold, "In ["+count+"]: ")+strings.ReplaceAll(strings.TrimRight(b.Code, "\n"), "\n", "\n      ")+"\n")
	case api.InputRequested:
		v.print(v.out, b.Prompt+"\n")
	case api.KernelReset:
		v.print(v.out, styled(v.out.Writer, dim, fmt.Sprintf("[Python restarted: %s]", b.Reason))+"\n")
	case api.KernelDied:
		v.print(v.out, styled(v.out.Writer, red, fmt.Sprintf("[Python exited: %s]", b.Reason))+"\n")
	case api.ArtifactEvent:
		v.print(v.out, styled(v.out.Writer, dim, fmt.Sprintf("[file %s: %s]", b.Change, quoted(b.Path)))+"\n")
	default:
		_, err = v.show(ctx, event)
	}
	return errors.Join(err, v.failed)
}

func exportCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "export SESSION [FILE|-]", Short: "Write the session as a Jupyter notebook", Args: arguments(1, 2),
		Example: `  talaria export work            # work.ipynb
  talaria export work - | jupyter nbconvert --stdin --to html`,
		RunE: withServer(func(cmd *cobra.Command, c *connection, args []string) error {
			file := args[0] + ".ipynb"
			if len(args) > 1 {
				file = args[1]
			}
			notebook, err := c.Notebook(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			if file == "-" {
				_, err := cmd.OutOrStdout().Write(notebook)
				return err
			}
			file = inFolder(file, args[0]+".ipynb")
			n, err := download(file, bytes.NewReader(notebook))
			if err != nil {
				return err
			}
			return printSaved(cmd, file, n)
		}),
	}
	addJSON(cmd)
	addConnection(cmd)
	return cmd
}

func openCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "open [SESSION]", Short: "Open the notebook page in a browser", Args: arguments(0, 1),
		Example: `  talaria open
  talaria open work`,
		RunE: withServer(func(cmd *cobra.Command, c *connection, args []string) error {
			query := url.Values{}
			if len(args) > 0 {
				if _, err := c.Session(cmd.Context(), args[0]); err != nil {
					return err
				}
				query.Set("session", args[0])
			}
			if err := c.Healthy(cmd.Context()); err != nil {
				return err
			}
			plain := strings.TrimSuffix(c.url+"/?"+query.Encode(), "?")
			query.Set("token", c.token)
			withToken := c.url + "/?" + query.Encode()
			opened := browse(cmd.Context(), withToken)
			switch {
			case asJSON(cmd) && opened:
				return printJSON(cmd.OutOrStdout(), map[string]any{"opened": true, "url": plain})
			case asJSON(cmd):
				return printJSON(cmd.OutOrStdout(), map[string]any{"opened": false, "url": withToken})
			case opened:
				_, err := fmt.Fprintln(cmd.OutOrStdout(), "opened", plain)
				return err
			}
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "cannot start a browser; open this URL, which contains your token:\n%s\n", withToken)
			return err
		}),
	}
	addJSON(cmd)
	addConnection(cmd)
	return cmd
}

// browse opens an address in a browser, and reports whether it could.
func browse(ctx context.Context, address string) bool {
	program, err := exec.LookPath(first(os.Getenv("BROWSER"), "xdg-open"))
	return err == nil && exec.CommandContext(ctx, program, address).Run() == nil
}

func packagesCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "packages", Short: "Install Python packages into a session", Args: arguments(0, 0),
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
		Example: `  talaria packages install work requests 'pandas<3'`,
	}
	install := &cobra.Command{
		Use: "install SESSION REQUIREMENT...", Aliases: []string{"add"}, Short: "Install packages; they stay until the session is deleted", Args: arguments(2, -1),
		RunE: withServer(func(cmd *cobra.Command, c *connection, args []string) error {
			done, err := c.InstallPackages(cmd.Context(), args[0], api.PackagesRequest{Requirements: args[1:]})
			if err != nil {
				return err
			}
			if asJSON(cmd) {
				err = printJSON(cmd.OutOrStdout(), done)
			} else {
				_, err = fmt.Fprintln(cmd.OutOrStdout(), escapeControls(strings.TrimRight(done.Text, "\n"), `\x%02x`))
			}
			if err == nil && done.Status != api.StatusOK {
				return exitError(exitFailed)
			}
			return err
		}),
	}
	cmd.PersistentFlags().Bool("json", false, "print JSON")
	addConnection(cmd)
	cmd.AddCommand(install)
	return cmd
}
