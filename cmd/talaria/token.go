package main

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"talaria/api"
	"talaria/store"
)

// The forms of tokens.
const (
	formTalaria = "talaria"
	formE2B     = "e2b"
)

// newE2BToken returns a token in the only form that E2B's SDKs accept: e2b_ and hexadecimal digits.
func newE2BToken() string {
	var b [24]byte
	rand.Read(b[:]) // never fails
	return "e2b_" + hex.EncodeToString(b[:])
}

func tokenCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "token", Short: "Create, list and revoke tokens", Args: arguments(0, 0),
		Long: `Create, list and revoke tokens.

An owner's token gives access to all of the owner's sessions. It is created in the state directory, whether or not the
server is running. A session token gives chosen rights to one session, and expires; the server creates it.`,
		Example: `  TOKEN=$(talaria token create --owner alice)
  E2B_API_KEY=$(talaria token create --owner agent --form e2b)
  talaria token create --session work --rights run,write --expires 8h
  talaria token list
  talaria token revoke 1f0c3a9be212`,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.PersistentFlags().Bool("json", false, "print JSON")
	create := &cobra.Command{
		Use: "create (--owner NAME | --session ID)", Short: "Create a token and print it", Args: arguments(0, 0),
		Long: `Create a token. Only the token is printed to standard output; a description goes to standard error.

Rights of a token for a session: read (always), run, write, terminal.`,
		RunE: createToken,
	}
	f := create.Flags()
	f.String("owner", "", "owner whose sessions the token gives access to")
	f.String("session", "", "the one session that the token gives access to")
	f.StringSlice("rights", nil, "with --session: read, run, write, terminal (default: read)")
	f.String("form", formTalaria, "form of the token: talaria, or e2b, which E2B's SDKs accept")
	f.Duration("expires", time.Hour, "with --session: how long the token is valid")
	addConnection(create)
	list := &cobra.Command{
		Use: "list", Aliases: []string{"ls"}, Short: "List tokens by id, without the tokens themselves", Args: arguments(0, 0), RunE: tokens(listTokens),
	}
	revoke := &cobra.Command{
		Use: "revoke [ID...]", Aliases: []string{"rm"}, Short: "Revoke tokens; their logins, sockets and streams end",
		Long: `Revoke the tokens with the given ids, which talaria token list shows, or all tokens of --owner. Logins made with them end,
and a running server closes their sockets and streams within a second. Sessions are kept.`,
		RunE: tokens(revokeTokens),
	}
	revoke.Flags().String("owner", "", "revoke all tokens of this owner, except session tokens")
	show := &cobra.Command{
		Use: "show", Short: "Print the first owner's token, from the state directory", Args: arguments(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return printKept(cmd, firstOwnersToken, func(token string) any {
				return map[string]string{"id": store.TokenID(token), "owner": firstOwner, "token": token}
			})
		},
	}
	cmd.AddCommand(create, list, revoke, show)
	return cmd
}

func urlCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "url",
		Short: "Print the URL of the server that uses the state directory",
		Args:  arguments(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return printKept(cmd, runningAt, func(url string) any { return map[string]string{"url": url} })
		},
	}
	addJSON(cmd)
	return cmd
}

func firstOwnersToken(dir string) (string, error) { return given("", "", filepath.Join(dir, "token")) }

// printKept prints what the server keeps in its state directory for clients. object is what it is in JSON.
func printKept(cmd *cobra.Command, read func(dir string) (string, error), object func(text string) any) error {
	dir, err := stateDir(cmd)
	if err != nil {
		return err
	}
	text, err := read(dir)
	if err != nil {
		if errors.Is(err, fs.ErrPermission) {
			return fmt.Errorf("%w; run this as the server's user", err)
		}
		return fmt.Errorf("%w; start the server first, or pass its --state-dir", err)
	}
	if asJSON(cmd) {
		return printJSON(cmd.OutOrStdout(), object(text))
	}
	_, err = fmt.Fprintln(cmd.OutOrStdout(), text)
	return err
}

// tokenRun is one run of a command on the tokens of a state directory.
type tokenRun struct {
	cmd  *cobra.Command
	db   *store.Store
	dir  string
	args []string
	out  io.Writer
}

// tokens opens the database beside a server that may be running. Only token create makes one, for the server that will start there.
func tokens(run func(context.Context, *tokenRun) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) (err error) {
		c, err := load(cmd)
		if err != nil {
			return err
		}
		if _, err := os.Stat(filepath.Join(c.StateDir, "talaria.db")); errors.Is(err, fs.ErrNotExist) {
			if cmd.Name() != "create" {
				return fmt.Errorf("no server has used the state directory %s; pass the server's with --state-dir", c.StateDir)
			}
			fmt.Fprintf(cmd.ErrOrStderr(), "talaria: no server has used the state directory %s yet; a server that uses another does not know this token\n", c.StateDir)
		}
		if err := os.MkdirAll(c.StateDir, 0o700); err != nil {
			return fmt.Errorf("create the state directory: %w", err)
		}
		db, err := store.OpenGuest(cmd.Context(), c.StateDir, slog.New(slog.DiscardHandler))
		if err != nil {
			return err
		}
		defer closing(&err, db.Close)
		return run(cmd.Context(), &tokenRun{cmd: cmd, db: db, dir: c.StateDir, args: args, out: cmd.OutOrStdout()})
	}
}

func createToken(cmd *cobra.Command, args []string) error {
	owner, session := flagOf(cmd, "owner"), flagOf(cmd, "session")
	switch {
	case (owner == "") == (session == ""):
		return usagef("give either --owner or --session; see %s --help", cmd.CommandPath())
	case session != "":
		return withServer(createSessionToken)(cmd, args)
	case !slices.Contains([]string{"", formTalaria, formE2B}, flagOf(cmd, "form")):
		return usagef("--form must be talaria or e2b, not %q", flagOf(cmd, "form"))
	case cmd.Flags().Changed("rights") || cmd.Flags().Changed("expires"):
		return usagef("--rights and --expires require --session")
	case !api.ValidID(owner):
		return usagef("--owner %q must match [A-Za-z0-9][A-Za-z0-9._:-]{0,127}", owner)
	}
	return tokens(createOwnerToken)(cmd, args)
}

func createOwnerToken(ctx context.Context, r *tokenRun) error {
	owner, token := flagOf(r.cmd, "owner"), newToken()
	if flagOf(r.cmd, "form") == formE2B {
		token = newE2BToken()
	}
	if err := r.db.PutToken(ctx, token, owner, owner == firstOwner); err != nil {
		return err
	}
	if asJSON(r.cmd) {
		return printJSON(r.out, map[string]string{"id": store.TokenID(token), "owner": owner, "token": token})
	}
	fmt.Fprintf(r.cmd.ErrOrStderr(), "Token %s for %s. It will not be shown again.\n", store.TokenID(token), owner)
	_, err := fmt.Fprintln(r.out, token)
	return err
}

func createSessionToken(cmd *cobra.Command, c *connection, _ []string) error {
	rights, _ := cmd.Flags().GetStringSlice("rights")
	expires, _ := cmd.Flags().GetDuration("expires")
	seconds := expires.Seconds()
	req := api.SessionTokenRequest{ExpiresS: &seconds}
	for _, r := range rights {
		req.Rights = append(req.Rights, api.Right(r))
	}
	made, err := c.CreateToken(cmd.Context(), flagOf(cmd, "session"), req)
	if err != nil {
		return err
	}
	if asJSON(cmd) {
		return printJSON(cmd.OutOrStdout(), made)
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "Token %s for session %s with the rights %s until %s. It will not be shown again.\n",
		made.ID, flagOf(cmd, "session"), joinRights(made.Rights), made.ExpiresAt.Format(time.RFC3339))
	_, err = fmt.Fprintln(cmd.OutOrStdout(), made.Token)
	return err
}

func joinRights(rights []api.Right) string {
	names := make([]string, len(rights))
	for i, r := range rights {
		names[i] = string(r)
	}
	return strings.Join(names, ", ")
}

// listedToken is a token in the list: of an owner, or for one session.
type listedToken struct {
	ID         string    `json:"id"`
	Owner      string    `json:"owner"`
	Session    string    `json:"session,omitzero"`
	Rights     []string  `json:"rights,omitzero"`
	CreatedAt  api.Time  `json:"created_at"`
	ExpiresAt  *api.Time `json:"expires_at,omitzero"`
	LastUsedAt *api.Time `json:"last_used_at,omitzero"`
}

// allTokens are the tokens of all owners, then those for one session.
func (r *tokenRun) allTokens(ctx context.Context) ([]listedToken, error) {
	owners, err := r.db.ListTokens(ctx)
	if err != nil {
		return nil, err
	}
	sessions, err := r.db.AllSessionTokens(ctx)
	if err != nil {
		return nil, err
	}
	all := []listedToken{}
	for _, t := range owners {
		all = append(all, listedToken{ID: t.ID, Owner: t.Owner, CreatedAt: api.Millis(t.CreatedAt), LastUsedAt: t.UsedAt})
	}
	for _, t := range sessions {
		ends := api.Millis(t.EndsAt)
		all = append(all, listedToken{ID: t.ID, Owner: t.Owner, Session: t.Session, Rights: strings.Split(t.Rights, ","),
			CreatedAt: api.Millis(t.CreatedAt), ExpiresAt: &ends, LastUsedAt: t.UsedAt})
	}
	return all, nil
}

func listTokens(ctx context.Context, r *tokenRun) error {
	all, err := r.allTokens(ctx)
	if err != nil {
		return err
	}
	if asJSON(r.cmd) {
		return printJSON(r.out, all)
	}
	w := newTable(r.out, "ID", "OWNER", "SESSION", "RIGHTS", "CREATED", "EXPIRES", "LAST USED")
	for _, t := range all {
		session, rights, ends := "all", "all", "never"
		if t.Session != "" {
			session, rights, ends = t.Session, strings.Join(t.Rights, ","), t.ExpiresAt.Format(time.RFC3339)
		}
		used := "never"
		if t.LastUsedAt != nil {
			used = t.LastUsedAt.Format(time.RFC3339)
		}
		w.row(t.ID, t.Owner, session, rights, t.CreatedAt.Format(time.RFC3339), ends, used)
	}
	return w.flush()
}

func revokeTokens(ctx context.Context, r *tokenRun) error {
	owner := flagOf(r.cmd, "owner")
	if (owner == "") == (len(r.args) == 0) {
		return usagef("give either the ids of tokens, which %s token list shows, or --owner", program)
	}
	all, err := r.allTokens(ctx)
	if err != nil {
		return err
	}
	for _, id := range r.args {
		if !slices.ContainsFunc(all, func(t listedToken) bool { return t.ID == id }) {
			return fmt.Errorf("no token has the id %q; %s token list shows them", id, program)
		}
	}
	all = slices.DeleteFunc(all, func(t listedToken) bool {
		return !(owner != "" && t.Owner == owner && t.Session == "") && !slices.Contains(r.args, t.ID)
	})
	if len(all) == 0 {
		return fmt.Errorf("owner %q has no token", owner)
	}
	for _, t := range all {
		if err := r.revoke(ctx, t); err != nil {
			return err
		}
	}
	if asJSON(r.cmd) {
		return printJSON(r.out, all)
	}
	return nil
}

// revoke revokes one token. The first owner's would come back with the next start, unless its file goes.
func (r *tokenRun) revoke(ctx context.Context, t listedToken) error {
	revoke := r.db.RevokeToken
	if t.Session != "" {
		revoke = r.db.RevokeSessionToken
	}
	if err := revoke(ctx, t.ID); err != nil {
		return fmt.Errorf("revoke %s: %w", t.ID, err)
	}
	if !asJSON(r.cmd) {
		fmt.Fprintf(r.out, "revoked %s of %s\n", t.ID, t.Owner)
	}
	forgot, err := forgetKept(r.dir, t.ID)
	if forgot {
		fmt.Fprintln(r.cmd.ErrOrStderr(), "this was the first owner's token; the server creates another when it next starts, unless TALARIA_TOKEN presets one")
	}
	return err
}

// forgetKept deletes the file with the first owner's token if it has that id, so that the next start creates another.
func forgetKept(dir, id string) (forgot bool, err error) {
	path := filepath.Join(dir, "token")
	kept, err := given("", "", path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return false, nil
	case err != nil:
		return false, err
	case store.TokenID(kept) != id:
		return false, nil
	}
	if err := os.Remove(path); err != nil {
		return false, fmt.Errorf("forget the first owner's token: %w", err)
	}
	return true, nil
}

// servedTokens are the tokens of a running server, which keeps the first owner's in a file of its state directory.
type servedTokens struct {
	*store.Store
	dir string
}

// RevokeOwned revokes an owner's token for good: the next start does not bring it back from the file.
func (t servedTokens) RevokeOwned(ctx context.Context, owner, id string) (found bool, err error) {
	if found, err = t.Store.RevokeOwned(ctx, owner, id); err != nil || !found {
		return found, err
	}
	_, err = forgetKept(t.dir, id)
	return true, err
}
