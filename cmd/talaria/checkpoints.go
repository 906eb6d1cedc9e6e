package main

import (
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"talaria/api"
)

// maxListed is how many things that could not be saved or restored are printed; there may be thousands.
const maxListed = 20

func checkpointCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "checkpoint SESSION",
		Aliases: []string{"checkpoints"},
		Short:   "Make, list, compare and delete checkpoints of a session",
		Long: `Make a checkpoint of a session, its variables and files, and print its id.

Anything that the checkpoint lacks is listed on standard error. The session must not be running a cell.`,
		Example: `  talaria checkpoint work --name 'before cleaning'
  talaria checkpoint list work
  talaria checkpoint diff work 'before cleaning'
  talaria rollback work 'before cleaning'`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 1 {
				return unknownCommand(cmd, args[0])
			}
			return arguments(1, 1)(cmd, args)
		},
		RunE: withServer(makeCheckpoint),
	}
	cmd.Flags().String("name", "", "name of the checkpoint; named checkpoints are kept until you delete them")
	cmd.Flags().String("level", "", "live: variables in memory, exactly as they are; saved: variables on disk, which survive the kernel; files: only the files (default: the first that is possible)")
	cmd.PersistentFlags().Bool("json", false, "print JSON")
	addConnection(cmd)
	cmd.AddCommand(
		&cobra.Command{Use: "list SESSION", Aliases: []string{"ls"}, Short: "List a session's checkpoints, newest first", Args: arguments(1, 1), RunE: withServer(listCheckpoints)},
		&cobra.Command{
			Use: "diff SESSION ID|NAME [ID|NAME]", Short: "Show what changed since a checkpoint, or up to a later one", Args: arguments(2, 3),
			Example: `  talaria checkpoint diff work 'before cleaning'
  talaria checkpoint diff work first second`,
			RunE: withServer(diffCheckpoints),
		},
		&cobra.Command{Use: "delete SESSION ID|NAME", Aliases: []string{"rm"}, Short: "Delete a checkpoint", Args: arguments(2, 2), RunE: withServer(deleteCheckpoint)})
	return cmd
}

func rollbackCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "rollback SESSION ID|NAME",
		Short: "Take a session back to a checkpoint",
		Long: `Take a session back to a checkpoint: its variables, its files, or both.

It prints what could not be restored, and the command that undoes the rollback. The session must not be running a cell.`,
		Example: `  talaria rollback work 'before cleaning' --dry-run
  talaria rollback work 'before cleaning'
  talaria rollback work 'before cleaning' --what files --keep-edits`,
		Args: arguments(2, 2),
		RunE: withServer(rollBack),
	}
	cmd.Flags().String("what", string(api.RollbackAll), "all, variables or files")
	cmd.Flags().Bool("keep-edits", false, "leave alone the files that only people or tools have changed since")
	cmd.Flags().Bool("dry-run", false, "change nothing; print the changes that the rollback would undo")
	addJSON(cmd)
	addConnection(cmd)
	return cmd
}

func makeCheckpoint(cmd *cobra.Command, c *connection, args []string) error {
	req, err := checkpointRequest(cmd)
	if err != nil {
		return err
	}
	made, err := c.Checkpoint(cmd.Context(), args[0], req)
	switch {
	case err != nil:
		return err
	case asJSON(cmd):
		return printJSON(cmd.OutOrStdout(), made)
	}
	notes := cmd.ErrOrStderr()
	if made.Level == api.CheckpointFiles && req.Level == nil {
		fmt.Fprintf(notes, "talaria: the checkpoint has only files: %s\n", escaped(made.Reason))
	}
	for i, missing := range made.NotSaved {
		if i == maxListed {
			fmt.Fprintf(notes, "talaria: not saved: %d more; %s checkpoint list %s --json lists them all\n", len(made.NotSaved)-i, program, args[0])
			break
		}
		fmt.Fprintf(notes, "talaria: not saved: %s: %s\n", escaped(missing.Name), escaped(missing.Reason))
	}
	_, err = fmt.Fprintln(cmd.OutOrStdout(), made.ID)
	return err
}

func checkpointRequest(cmd *cobra.Command) (req api.CheckpointRequest, err error) {
	if name := flagOf(cmd, "name"); name != "" {
		req.Name = &name
	}
	if level := api.CheckpointLevel(flagOf(cmd, "level")); level != "" {
		if !slices.Contains(api.CheckpointLevels, level) {
			return req, usagef("--level must be live, saved or files, not %q", level)
		}
		req.Level = &level
	}
	return req, nil
}

// escaped is text of a session as a terminal may get it.
func escaped(text string) string { return escapeControls(text, `\x%02x`) }

// titleOf names a checkpoint for people.
func titleOf(p api.Checkpoint) string {
	switch {
	case p.Name != "":
		return fmt.Sprintf("%q", p.Name)
	case p.Undo:
		return "the state before a rollback"
	}
	return "the checkpoint of " + p.CreatedAt.Local().Format(time.DateTime)
}

func listCheckpoints(cmd *cobra.Command, c *connection, args []string) error {
	list, err := c.Checkpoints(cmd.Context(), args[0])
	switch {
	case err != nil:
		return err
	case asJSON(cmd):
		return printJSON(cmd.OutOrStdout(), list)
	case len(list) == 0:
		_, err := fmt.Fprintf(cmd.OutOrStdout(), "no checkpoints; %s checkpoint %s makes one\n", program, args[0])
		return err
	}
	t := newTable(cmd.OutOrStdout(), "ID", "NAME", "LEVEL", "CELLS", "SIZE", "MADE")
	for _, p := range list {
		name := p.Name
		if name == "" {
			name = "-"
			if p.Undo {
				name = "(before a rollback)"
			}
		}
		t.row(p.ID, name, string(p.Level), fmt.Sprint(p.ExecutionCount), size(p.Bytes), time.Since(p.CreatedAt.Time).Round(time.Second).String()+" ago")
	}
	return t.flush()
}

// findCheckpoint returns the checkpoint of a session with that id, or the only one with that name.
func findCheckpoint(cmd *cobra.Command, c *connection, session, wanted string) (found api.Checkpoint, err error) {
	list, err := c.Checkpoints(cmd.Context(), session)
	if err != nil {
		return found, err
	}
	named := 0
	for _, p := range list {
		if p.ID == wanted {
			return p, nil
		}
		if p.Name == wanted {
			found = p
			named++
		}
	}
	switch {
	case named == 0:
		return found, fmt.Errorf("session %s has no checkpoint with the id or name %q; %s checkpoint list %[1]s lists them", session, wanted, program)
	case named > 1:
		return found, fmt.Errorf("session %s has %d checkpoints with the name %q; give the id, which %s checkpoint list %[1]s shows", session, named, wanted, program)
	}
	return found, nil
}

func diffCheckpoints(cmd *cobra.Command, c *connection, args []string) error {
	from, err := findCheckpoint(cmd, c, args[0], args[1])
	if err != nil {
		return err
	}
	to := ""
	if len(args) > 2 {
		later, err := findCheckpoint(cmd, c, args[0], args[2])
		if err != nil {
			return err
		}
		to = later.ID
	}
	diff, err := c.CheckpointDiff(cmd.Context(), args[0], from.ID, to)
	switch {
	case err != nil:
		return err
	case asJSON(cmd):
		return printJSON(cmd.OutOrStdout(), diff)
	}
	return printDiff(cmd.OutOrStdout(), diff)
}

func printDiff(w io.Writer, diff api.CheckpointDiff) error {
	if len(diff.Files)+len(diff.Variables) == 0 {
		_, err := fmt.Fprintln(w, "no changes")
		return err
	}
	t := newTable(w, "CHANGE", "WHAT", "NAME", "SIZE")
	for _, v := range diff.Variables {
		t.row(string(v.Change), "variable", v.Name, "-")
	}
	for _, f := range diff.Files {
		bytes := size(f.Size)
		if f.Change == api.Deleted {
			bytes = "-"
		}
		t.row(string(f.Change), "file", f.Path, bytes)
	}
	err := t.flush()
	if err == nil && diff.Truncated {
		_, err = fmt.Fprintln(w, "not all changes are listed")
	}
	return err
}

func deleteCheckpoint(cmd *cobra.Command, c *connection, args []string) error {
	found, err := findCheckpoint(cmd, c, args[0], args[1])
	if err != nil {
		return err
	}
	if err := c.DropCheckpoint(cmd.Context(), args[0], found.ID); err != nil {
		return err
	}
	if asJSON(cmd) {
		return printJSON(cmd.OutOrStdout(), map[string][]string{"deleted": {found.ID}})
	}
	_, err = fmt.Fprintf(cmd.OutOrStdout(), "deleted %s\n", titleOf(found))
	return err
}

func rollBack(cmd *cobra.Command, c *connection, args []string) error {
	part, _ := cmd.Flags().GetString("what")
	keep, _ := cmd.Flags().GetBool("keep-edits")
	dry, _ := cmd.Flags().GetBool("dry-run")
	what := api.RollbackPart(part)
	switch {
	case !slices.Contains(api.RollbackParts, what):
		return usagef("--what must be all, variables or files, not %q", what)
	case dry && keep:
		return usagef("--dry-run cannot tell which files --keep-edits would leave alone; give only one of the two")
	}
	point, err := findCheckpoint(cmd, c, args[0], args[1])
	if err != nil {
		return err
	}
	if dry {
		return previewRollback(cmd, c, args[0], point, what)
	}
	done, err := c.Rollback(cmd.Context(), args[0], api.RollbackRequest{CheckpointID: &point.ID, What: &what, KeepUserEdits: &keep})
	switch {
	case err != nil:
		return err
	case asJSON(cmd):
		return printJSON(cmd.OutOrStdout(), done)
	}
	return printRollback(cmd.OutOrStdout(), args[0], point, what, done)
}

// previewRollback prints what a rollback would undo.
func previewRollback(cmd *cobra.Command, c *connection, session string, point api.Checkpoint, what api.RollbackPart) error {
	diff, err := c.CheckpointDiff(cmd.Context(), session, point.ID, "")
	if err != nil {
		return err
	}
	if what == api.RollbackFiles {
		diff.Variables = []api.VariableChange{}
	}
	if what == api.RollbackVariables {
		diff.Files = []api.FileChange{}
	}
	if asJSON(cmd) {
		return printJSON(cmd.OutOrStdout(), diff)
	}
	return printDiff(cmd.OutOrStdout(), diff)
}

func printRollback(w io.Writer, session string, point api.Checkpoint, what api.RollbackPart, done api.RollbackReply) error {
	files := fmt.Sprintf("%d files", done.Files)
	if done.Files == 1 {
		files = "1 file"
	}
	restored := map[api.RollbackPart]string{
		api.RollbackAll: "variables are restored, " + files + " changed", api.RollbackVariables: "variables are restored", api.RollbackFiles: files + " changed",
	}
	fmt.Fprintf(w, "went back to %s: %s\n", titleOf(point), restored[what])
	listMissing(w, "not restored", done.NotRestored, func(m api.NotRestored) (string, string) { return m.Name, m.Reason })
	_, err := fmt.Fprintln(w, undoOf(session, what, done))
	return err
}

// undoOf says how to undo a rollback, as far as that is possible.
func undoOf(session string, what api.RollbackPart, done api.RollbackReply) string {
	again := fmt.Sprintf("%s rollback %s %s", program, session, done.Undo)
	switch {
	case what == api.RollbackFiles:
		return "undo: " + again + " --what files"
	case done.UndoLevel != api.CheckpointFiles && what == api.RollbackAll:
		return "undo: " + again
	case done.UndoLevel != api.CheckpointFiles:
		return "undo: " + again + " --what " + string(what)
	case what == api.RollbackAll:
		return "undo, files only, since the variables could not be saved: " + again + " --what files"
	}
	return "this cannot be undone: the earlier variables could not be saved"
}
