package main

import (
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"talaria/api"
	"talaria/store"
)

func tokenCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "token", Short: "Make tokens for owners of sessions"}
	create := &cobra.Command{
		Use:   "create",
		Short: "Make a token for an owner and print it; the server may be running",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			owner, _ := cmd.Flags().GetString("owner")
			if !api.ValidID(owner) {
				return fmt.Errorf("--owner %q must match [A-Za-z0-9][A-Za-z0-9._:-]{0,127}", owner)
			}
			c, err := load(cmd)
			if err != nil {
				return err
			}
			return createToken(cmd, c, owner)
		},
	}
	create.Flags().String("owner", "", "whose sessions the token gives access to")
	_ = create.MarkFlagRequired("owner")
	show := &cobra.Command{
		Use:   "show",
		Short: "Print the first owner's token, from the state directory",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return printKept(cmd, "token") },
	}
	cmd.AddCommand(create, show)
	return cmd
}

func urlCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "url",
		Short: "Print the URL of the server that runs on the state directory",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return printKept(cmd, "url") },
	}
}

// printKept prints a small file that the server writes when it starts.
func printKept(cmd *cobra.Command, name string) error {
	dir := first(flagOf(cmd, "state-dir"), os.Getenv("TALARIA_STATE_DIR"), defaultStateDir())
	text, err := given("", "", filepath.Join(dir, name))
	if err != nil {
		return fmt.Errorf("%w; start the server first, or give its --state-dir", err)
	}
	fmt.Fprintln(cmd.OutOrStdout(), text)
	return nil
}

func createToken(cmd *cobra.Command, c config, owner string) error {
	if err := os.MkdirAll(c.StateDir, 0o700); err != nil {
		return fmt.Errorf("make the state directory: %w", err)
	}
	db, err := store.OpenGuest(cmd.Context(), c.StateDir, slog.New(slog.NewTextHandler(io.Discard, nil)))
	if err != nil {
		return err
	}
	defer db.Close()
	token := newToken()
	if err := db.PutToken(cmd.Context(), token, owner, owner == firstOwner); err != nil {
		return err
	}
	fmt.Fprintf(cmd.OutOrStdout(), "token of %s, shown only now: %s\n", owner, token)
	return nil
}
