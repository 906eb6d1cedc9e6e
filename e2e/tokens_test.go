package e2e

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"talaria/api"
	"talaria/client"
)

// TestAnOwnerSeesWhenTokensWereUsedAndRevokesThem lists and revokes a session's token and then the owner's own one, which
// the server keeps in its state directory.
func TestAnOwnerSeesWhenTokensWereUsedAndRevokesThem(t *testing.T) {
	t.Parallel()
	s := start(t, options{})
	c, ctx := s.Client(), within(t)
	if _, _, err := c.EnsureSession(ctx, "work", api.SessionRequest{}); err != nil {
		t.Fatal(err)
	}
	made, err := c.CreateToken(ctx, "work", api.SessionTokenRequest{})
	if err != nil {
		t.Fatal(err)
	}
	own, ofSession := ownTokens(t, c)
	if own.LastUsedAt == nil || ofSession.ID != made.ID || ofSession.Session != "work" || ofSession.LastUsedAt != nil {
		t.Errorf("before the session's token is used: %+v, %+v", own, ofSession)
	}

	visitor := client.New(s.URL, made.Token)
	visitor.HTTP = c.HTTP
	if _, err := visitor.Session(ctx, "work"); err != nil {
		t.Fatal(err)
	}
	if _, ofSession = ownTokens(t, c); ofSession.LastUsedAt == nil || ofSession.LastUsedAt.Before(made.CreatedAt.Time) {
		t.Errorf("after its use: %+v", ofSession)
	}
	if list, err := c.Tokens(ctx, "work"); err != nil || len(list) != 1 || list[0].LastUsedAt == nil {
		t.Errorf("the session's tokens: %+v, %v", list, err)
	}
	if err := c.RevokeOwnToken(ctx, made.ID); err != nil {
		t.Fatal(err)
	}
	refused := new(api.Error)
	if _, err := visitor.Session(ctx, "work"); !errors.As(err, &refused) || refused.Code != api.CodeUnauthorized {
		t.Errorf("the revoked token of a session: %v", err)
	}
	if err := c.RevokeOwnToken(ctx, made.ID); !errors.As(err, &refused) || refused.Code != api.CodeNotFound {
		t.Errorf("revoked again: %v", err)
	}

	kept := filepath.Join(s.StateDir, "token")
	if _, err := os.Stat(kept); err != nil {
		t.Fatal(err)
	}
	if err := c.RevokeOwnToken(ctx, own.ID); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(kept); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the file of the revoked token: %v", err)
	}
	if _, err := c.OwnTokens(ctx); !errors.As(err, &refused) || refused.Code != api.CodeUnauthorized {
		t.Errorf("the revoked token of the owner: %v", err)
	}
}

// ownTokens are the owner's only token for all sessions, and the one for a session.
func ownTokens(t *testing.T, c *client.Client) (own, ofSession api.OwnedToken) {
	t.Helper()
	list, err := c.OwnTokens(within(t))
	if err != nil || len(list) != 2 {
		t.Fatalf("the owner's tokens are %+v, %v", list, err)
	}
	return list[0], list[1]
}
