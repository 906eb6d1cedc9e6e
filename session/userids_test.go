package session_test

import (
	"errors"
	"log/slog"
	"os"
	"testing"

	"talaria/api"
	"talaria/session"
)

func TestNoSessionGetsTheUserIDOfProcessesThatAreLeft(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root's sessions have users of their own")
	}
	const first = 1_900_081_000
	for _, c := range []struct {
		what string
		pids []int
		err  error
		want int
	}{
		{"nothing is left", nil, nil, first},
		{"processes are left", []int{4711}, nil, first + 1},
		{"it is not known", nil, errors.New("no /proc"), first + 1},
	} {
		log := &listener{Writer: t.Output(), message: "pids=[4711]", came: make(chan struct{})}
		r := newRig(t, nil, func(cfg *session.Config) {
			cfg.UIDBase, cfg.Log = first, slog.New(slog.NewTextHandler(log, nil))
			cfg.UserProcesses = func(uid int) ([]int, error) {
				if uid != first {
					t.Errorf("%s: user %d is asked for", c.what, uid)
				}
				return c.pids, c.err
			}
		})
		if err := r.Delete(t.Context(), "ann", r.session(api.SessionRequest{}).ID()); err != nil {
			t.Fatal(err)
		}
		r.session(api.SessionRequest{})
		rows, err := r.db.AllSessions(t.Context())
		if err != nil || len(rows) != 1 || rows[0].UID != c.want {
			t.Errorf("%s: the next session is %+v, %v", c.what, rows, err)
		}
		select {
		case <-log.came:
			if len(c.pids) == 0 {
				t.Errorf("%s: the log names processes", c.what)
			}
		default:
			if len(c.pids) > 0 {
				t.Errorf("%s: the log does not name them", c.what)
			}
		}
	}
}
