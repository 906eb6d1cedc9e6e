package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"talaria/api"
	"talaria/store"
)

func tokenCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "token", Short: "Make, list and revoke tokens of owners of sessions"}
	create := &cobra.Command{
		Use:   "create",
		Short: "Make a token for an owner and print it; the server may be running",
		Args:  arguments(0, 0),
		RunE:  tokens(createToken),
	}
	create.Flags().String("owner", "", "whose sessions the token gives access to")
	_ = create.MarkFlagRequired("owner")
	list := &cobra.Command{
		Use:   "list",
		Short: "List tokens by id, without the tokens themselves",
		Args:  arguments(0, 0),
		RunE:  tokens(listTokens),
	}
	revoke := &cobra.Command{
		Use:   "revoke [ID...]",
		Short: "Revoke tokens; their logins, sockets and streams end, also of a server that runs",
		Long: `Revoke the tokens with the given ids, which talaria token list shows, or all tokens of --owner. Their logins end too, and
so do the sockets and streams of a running server, within a second. Sessions stay.`,
		RunE: tokens(revokeTokens),
	}
	revoke.Flags().String("owner", "", "revoke all tokens of this owner")
	show := &cobra.Command{
		Use:   "show",
		Short: "Print the first owner's token, from the state directory",
		Args:  arguments(0, 0),
		RunE:  func(cmd *cobra.Command, _ []string) error { return printKept(cmd, "token") },
	}
	cmd.AddCommand(create, list, revoke, show)
	return cmd
}

func urlCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "url",
		Short: "Print the URL of the server that runs on the state directory",
		Args:  arguments(0, 0),
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

// tokenRun is one run of a command on the tokens of a state directory.
type tokenRun struct {
	cmd  *cobra.Command
	db   *store.Store
	dir  string
	args []string
	out  io.Writer
}

// tokens opens the database beside a server that may be running.
func tokens(run func(context.Context, *tokenRun) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) (err error) {
		c, err := load(cmd)
		if err != nil {
			return err
		}
		if err := os.MkdirAll(c.StateDir, 0o700); err != nil {
			return fmt.Errorf("make the state directory: %w", err)
		}
		db, err := store.OpenGuest(cmd.Context(), c.StateDir, slog.New(slog.DiscardHandler))
		if err != nil {
			return err
		}
		defer closing(&err, db.Close)
		return run(cmd.Context(), &tokenRun{cmd: cmd, db: db, dir: c.StateDir, args: args, out: cmd.OutOrStdout()})
	}
}

func createToken(ctx context.Context, r *tokenRun) error {
	owner, _ := r.cmd.Flags().GetString("owner")
	if !api.ValidID(owner) {
		return fmt.Errorf("--owner %q must match [A-Za-z0-9][A-Za-z0-9._:-]{0,127}", owner)
	}
	token := newToken()
	if err := r.db.PutToken(ctx, token, owner, owner == firstOwner); err != nil {
		return err
	}
	fmt.Fprintf(r.out, "token of %s, shown only now: %s\n", owner, token)
	return nil
}

func listTokens(ctx context.Context, r *tokenRun) error {
	list, err := r.db.ListTokens(ctx)
	if err != nil {
		return err
	}
	w := tabwriter.NewWriter(r.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "ID\tOWNER\tCREATED")
	for _, t := range list {
		fmt.Fprintf(w, "%s\t%s\t%s\n", t.ID, t.Owner, time.UnixMilli(t.CreatedAt).UTC().Format(time.RFC3339))
	}
	return w.Flush()
}

func revokeTokens(ctx context.Context, r *tokenRun) error {
	owner, _ := r.cmd.Flags().GetString("owner")
	if (owner == "") == (len(r.args) == 0) {
		return errors.New("give either the ids of tokens, which talaria token list shows, or --owner")
	}
	list, err := r.db.ListTokens(ctx)
	if err != nil {
		return err
	}
	for _, id := range r.args {
		if !slices.ContainsFunc(list, func(t store.Token) bool { return t.ID == id }) {
			return fmt.Errorf("no token has the id %q; talaria token list shows them", id)
		}
	}
	list = slices.DeleteFunc(list, func(t store.Token) bool { return t.Owner != owner && !slices.Contains(r.args, t.ID) })
	if len(list) == 0 {
		return fmt.Errorf("owner %q has no token", owner)
	}
	for _, t := range list {
		if err := r.revoke(ctx, t); err != nil {
			return err
		}
	}
	return nil
}

// revoke revokes one token. The first owner's would come back with the next start, unless its file goes.
func (r *tokenRun) revoke(ctx context.Context, t store.Token) error {
	if err := r.db.RevokeToken(ctx, t.ID); err != nil {
		return fmt.Errorf("revoke %s: %w", t.ID, err)
	}
	fmt.Fprintf(r.out, "revoked %s of %s\n", t.ID, t.Owner)
	path := filepath.Join(r.dir, "token")
	kept, err := given("", "", path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case store.TokenID(kept) != t.ID:
		return nil
	}
	if err := os.Remove(path); err != nil {
		return fmt.Errorf("forget the first owner's token: %w", err)
	}
	fmt.Fprintln(r.out, "it was the one that the server keeps: its next start makes another, unless TALARIA_TOKEN presets one")
	return nil
}
