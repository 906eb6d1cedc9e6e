package store_test

import (
	"errors"
	"testing"
	"time"

	"talaria/store"
)

func TestAnOwnerRevokesOwnTokensOnly(t *testing.T) {
	s := open(t, t.TempDir())
	ctx := t.Context()
	for token, owner := range map[string]string{"tal_a": "alice", "tal_b": "bob"} {
		if err := s.PutToken(ctx, token, owner, false); err != nil {
			t.Fatal(err)
		}
	}
	list, err := s.OwnedTokens(ctx, "alice")
	if err != nil || len(list) != 1 || list[0].ID != store.TokenID("tal_a") || list[0].CreatedAt.IsZero() || list[0].ExpiresAt != nil {
		t.Fatalf("alice's tokens are %+v, %v", list, err)
	}
	if found, err := s.RevokeOwned(ctx, "alice", store.TokenID("tal_b")); found || err != nil {
		t.Errorf("alice revokes bob's token: %v, %v", found, err)
	}
	if _, _, ok := s.Owner(ctx, "tal_b"); !ok {
		t.Error("bob's token is gone")
	}
	before, _ := s.Revocations(ctx)
	if found, err := s.RevokeOwned(ctx, "alice", list[0].ID); !found || err != nil {
		t.Errorf("alice revokes her token: %v, %v", found, err)
	}
	if _, _, ok := s.Owner(ctx, "tal_a"); ok {
		t.Error("alice's token is still valid")
	}
	if after, _ := s.Revocations(ctx); after == before {
		t.Error("the revocation was not counted")
	}
	if list, err := s.OwnedTokens(ctx, "alice"); err != nil || len(list) != 0 {
		t.Errorf("alice's tokens are %+v, %v", list, err)
	}
}

func TestTheLastUseOfATokenIsKept(t *testing.T) {
	s := open(t, t.TempDir())
	ctx := t.Context()
	for _, token := range []string{"tal_a", "tal_b", "tal_c"} {
		if err := s.PutToken(ctx, token, "alice", false); err != nil {
			t.Fatal(err)
		}
	}
	login, err := s.Login(ctx, "tal_b", time.Now().Add(time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	at := time.UnixMilli(1_800_000_000_123)
	if err := s.NoteUses(ctx, map[string]time.Time{"tal_a": at, login: at, "tal_unknown": at}); err != nil {
		t.Fatal(err)
	}
	list, err := s.OwnedTokens(ctx, "alice")
	if err != nil || len(list) != 3 {
		t.Fatal(list, err)
	}
	for _, one := range list {
		used := one.LastUsedAt != nil && one.LastUsedAt.Equal(at)
		if want := one.ID != store.TokenID("tal_c"); used != want || !want && one.LastUsedAt != nil {
			t.Errorf("%s was last used at %v", one.ID, one.LastUsedAt)
		}
	}
}

func TestATokenKeepsWhatItGivesAccessTo(t *testing.T) {
	s := open(t, t.TempDir())
	ctx := t.Context()
	do(t, s, func(tx *store.Tx) error { return tx.InsertSession(sample(1, "ann", "chat:1")) })
	later := time.Now().Add(time.Hour).UnixMilli()
	do(t, s, func(tx *store.Tx) error {
		return tx.InsertSessionToken(1, "tal_session", store.SessionToken{ID: "s", Rights: "read", CreatedAt: 1, EndsAt: later})
	})
	for range 2 { // the same again is no change
		if err := s.PutToken(ctx, "tal_a", "alice", false); err != nil {
			t.Fatal(err)
		}
	}
	for _, taken := range []string{"tal_a", "tal_session"} {
		if err := s.PutToken(ctx, taken, "admin", true); !errors.Is(err, store.ErrTokenTaken) {
			t.Errorf("%s for the first owner: %v", taken, err)
		}
	}
	if owner, first, _ := s.Owner(ctx, "tal_a"); owner != "alice" || first {
		t.Errorf("alice's token is %s's, first %v", owner, first)
	}
	if owner, _, ok := s.Owner(ctx, "tal_session"); ok {
		t.Errorf("the session's token is also %s's", owner)
	}
}
