package main

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"talaria/store"
)

func TestATokenOfAnotherOwnerDoesNotBecomeTheFirstOwners(t *testing.T) {
	c := defaults()
	c.StateDir = t.TempDir()
	db, err := store.Open(t.Context(), c.StateDir, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	admins, err := firstToken(t.Context(), db, c)
	if err != nil {
		t.Fatal(err)
	}
	alices := newToken()
	if err := db.PutToken(t.Context(), alices, "alice", false); err != nil {
		t.Fatal(err)
	}
	c.Token, c.sources = alices, map[string]string{"token": "TALARIA_TOKEN"}
	if _, err := firstToken(t.Context(), db, c); err == nil || !strings.Contains(err.Error(), "TALARIA_TOKEN cannot be the first owner's token") {
		t.Errorf("alice's token as the first owner's: %v", err)
	}
	for token, want := range map[string]string{admins: firstOwner, alices: "alice"} {
		if owner, _, _ := db.Owner(t.Context(), token); owner != want {
			t.Errorf("a token of %s belongs to %q", want, owner)
		}
	}
	if kept, err := given("", "", filepath.Join(c.StateDir, "token")); kept != admins {
		t.Errorf("the state directory has another token than the first owner's: %v", err)
	}
}

func TestAServerOfMCPTakesNoTokenFromItsClient(t *testing.T) {
	dir := t.TempDir()
	token := func(args ...string) string {
		t.Helper()
		cmd, _, err := command().Find([]string{"mcp"})
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.ParseFlags(append(args, "--state-dir", dir)); err != nil {
			t.Fatal(err)
		}
		c, err := ownConfig(cmd)
		if err != nil {
			t.Fatal(err)
		}
		return c.Token
	}
	if got := token("--token", "the-token-of-a-client"); got != "" {
		t.Errorf("--token presets %q", got)
	}
	t.Setenv("TALARIA_TOKEN", "the-token-of-a-client")
	if got := token(); got != "" {
		t.Errorf("TALARIA_TOKEN presets %q", got)
	}
	if err := os.Unsetenv("TALARIA_TOKEN"); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "talaria.yaml"), "token: preset-by-the-operator\n")
	if got := token(); got != "preset-by-the-operator" {
		t.Errorf("the file presets %q", got)
	}
}
