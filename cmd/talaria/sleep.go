package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"talaria/api"
)

func forkCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "fork SESSION",
		Short: "Create sessions with the variables and files of another session",
		Long: `Create sessions with the variables, files, packages and settings that a session has now, and print their ids. With
--checkpoint, variables and files come from that checkpoint.

The session itself continues undisturbed. It must not be running a cell. Forks lack the variables that cannot be saved; these are
listed on standard error.`,
		Example: `  talaria fork work
  talaria fork work --count 3 --name 'another way'
  talaria fork work --checkpoint 'before cleaning'
  talaria exec --session "$(talaria fork work)" -c 'print(len(df))'`,
		Args: arguments(1, 1),
		RunE: withServer(forkSession),
	}
	cmd.Flags().Int64("count", 1, fmt.Sprintf("how many sessions to create, up to %d", api.MaxForks))
	cmd.Flags().String("name", "", "display name (default: the session's name)")
	cmd.Flags().String("checkpoint", "", "the id or name of a checkpoint to start from (default: the current state)")
	addJSON(cmd)
	addConnection(cmd)
	return cmd
}

func hibernateCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "hibernate SESSION",
		Short: "Save the variables of a session and end its process",
		Long: `Save the variables of a session to disk and end its process, which frees its memory.

The next cell restores the variables, and so does talaria wake. Variables that cannot be saved are listed. The session must not be running a cell.`,
		Example: `  talaria hibernate work
  talaria wake work`,
		Args: arguments(1, 1),
		RunE: withServer(hibernateSession),
	}
	addJSON(cmd)
	addConnection(cmd)
	return cmd
}

func wakeCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "wake SESSION",
		Short: "Restart a session that hibernates",
		Long: `Start the process of a session that hibernates, and restore its saved variables.

The next cell does this automatically; waking the session first spares that cell the wait. Variables that cannot be restored are listed.`,
		Example: `  talaria wake work`,
		Args:    arguments(1, 1),
		RunE:    withServer(wakeSession),
	}
	addJSON(cmd)
	addConnection(cmd)
	return cmd
}

func forkSession(cmd *cobra.Command, c *connection, args []string) error {
	count, _ := cmd.Flags().GetInt64("count")
	if count < 1 || count > api.MaxForks {
		return usagef("--count must be between 1 and %d, not %d", api.MaxForks, count)
	}
	req := api.ForkRequest{Count: &count}
	if name := flagOf(cmd, "name"); name != "" {
		req.Name = &name
	}
	if wanted := flagOf(cmd, "checkpoint"); wanted != "" {
		point, err := findCheckpoint(cmd, c, args[0], wanted)
		if err != nil {
			return err
		}
		req.CheckpointID = &point.ID
	}
	made, err := c.Fork(cmd.Context(), args[0], req)
	if err != nil {
		return err
	}
	return printForks(cmd, made)
}

// printForks prints the ids of the forks that were made. If some could not be made, the error says why.
func printForks(cmd *cobra.Command, made api.ForkReply) error {
	var problem *api.Error
	var missing []api.NotRestored // the same in all forks
	ids, failed := []string{}, 0
	for _, fork := range made.Items {
		if fork.Session == nil {
			problem = fork.Problem
			failed++
			continue
		}
		ids, missing = append(ids, fork.Session.ID), fork.NotRestored
	}
	if asJSON(cmd) {
		if err := printJSON(cmd.OutOrStdout(), made); err != nil {
			return err
		}
	} else {
		for _, id := range ids {
			if _, err := fmt.Fprintln(cmd.OutOrStdout(), id); err != nil {
				return err
			}
		}
		listMissing(cmd.ErrOrStderr(), "talaria: not in the fork", missing, func(m api.NotRestored) (string, string) { return m.Name, m.Reason })
	}
	if failed > 0 {
		return fmt.Errorf("%d of %d forks could not be created: %w", failed, len(made.Items), problem)
	}
	return nil
}

// listMissing prints a line for each of the first things that are missing, and how many more there are.
func listMissing[T any](w io.Writer, what string, missing []T, describe func(T) (name, reason string)) {
	for i, one := range missing {
		if i == maxListed {
			fmt.Fprintf(w, "%s: %d more\n", what, len(missing)-i)
			return
		}
		name, reason := describe(one)
		fmt.Fprintf(w, "%s: %s: %s\n", what, escaped(name), escaped(reason))
	}
}

func hibernateSession(cmd *cobra.Command, c *connection, args []string) error {
	done, err := c.Hibernate(cmd.Context(), args[0])
	switch {
	case err != nil:
		return err
	case asJSON(cmd):
		return printJSON(cmd.OutOrStdout(), done)
	}
	_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s is hibernating; the next cell, or %s wake %[1]s, restores the variables\n", args[0], program)
	listMissing(cmd.OutOrStdout(), "not saved", done.NotSaved, func(m api.NotSaved) (string, string) { return m.Name, m.Reason })
	return err
}

func wakeSession(cmd *cobra.Command, c *connection, args []string) error {
	before, err := c.Session(cmd.Context(), args[0])
	if err != nil {
		return err
	}
	done, err := c.Wake(cmd.Context(), args[0])
	switch {
	case err != nil:
		return err
	case asJSON(cmd):
		return printJSON(cmd.OutOrStdout(), done)
	}
	said := fmt.Sprintf("kernel %d is already running", done.Kernel.Generation)
	switch before.State {
	case api.StateHibernated:
		said = fmt.Sprintf("kernel %d is running; variables are restored", done.Kernel.Generation)
	case api.StateDead:
		said = fmt.Sprintf("kernel %d is running, without variables: none were saved", done.Kernel.Generation)
	}
	_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s: %s\n", args[0], said)
	listMissing(cmd.OutOrStdout(), "not restored", done.NotRestored, func(m api.NotRestored) (string, string) { return m.Name, m.Reason })
	return err
}
