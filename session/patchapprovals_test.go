package session_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"talaria/api"
	"talaria/session"
	"talaria/session/settings"
)

// TestOnlyAPatchThatNamesAFileOfAWritableMountAsks has each way in which a patch names a file.
func TestOnlyAPatchThatNamesAFileOfAWritableMountAsks(t *testing.T) {
	root := t.TempDir()
	var mounts []string
	h := newToolHost(func(c *toolCell) {
		a, _ := c.Call("patch", c.code)
		mounts = a.Mounts
		c.Print(fmt.Sprint(a.Run))
	})
	r := newRig(t, nil, func(cfg *session.Config) {
		cfg.Host, cfg.MountRoots = h, []settings.MountRoot{{Name: root, Path: root}}
	})
	mode := api.ApprovalsDestructive
	s := r.session(api.SessionRequest{Approvals: &mode, Mounts: &[]api.Mount{
		{Source: root, Target: "/mnt/out", Mode: "rw"}, {Source: root, Target: "/data", Mode: "ro"},
	}})
	person := attended(t, s)
	for text, asks := range map[string]bool{
		"*** Update File: a.txt":                            false,
		"*** Add File: /mnt/outer/a":                        false,
		"*** Add File: /data/a":                             false, // where the sandbox refuses it
		"*** Update File: a\n+*** Add File: /mnt/out/a":     false, // which is a line of the file
		"*** Add File: /mnt/out/a":                          true,
		"*** Add File:   ../mnt/./out/a":                    true,
		"*** Add File: \x1c/mnt/out/a":                      true, // white space to Python
		"*** Update File: a\n*** Update File: /mnt/out/a\r": true,
		"*** Delete File: /mnt/out/a":                       true,
		"*** Update File: a\n*** Move to: /mnt/out/a":       true,
		"*** Move File: /mnt/out/a -> a":                    true,
		"*** Move File: a -> /mnt/out/a":                    true,
	} {
		arguments, err := json.Marshal(map[string]string{"mode": "patch", "patch": "*** Begin Patch\n" + text + "\n*** End Patch"})
		if err != nil {
			t.Fatal(err)
		}
		id := submit(t, s, string(arguments))
		if asks {
			asked := person.asked()
			if !strings.Contains(fmt.Sprint(asked), "write to a mount") {
				t.Errorf("%q asks %+v", text, asked)
			}
			person.decide(asked.ApprovalID, api.DecisionOnce)
		}
		if e := wait(t, s, id); e.Text != "true" {
			t.Errorf("%q: %s", text, e.Text)
		}
		if !slices.Equal(mounts, []string{"/mnt/out", "/data"}) {
			t.Errorf("the runner was told of the mounts %q", mounts)
		}
	}
	p, err := s.Approvals().List(t.Context(), "", api.PageQuery{})
	if err != nil || len(p.Items) != 8 {
		t.Errorf("%d questions (%v)", len(p.Items), err)
	}
}
