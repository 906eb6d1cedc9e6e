package session_test

import (
	"testing"

	"talaria/api"
	"talaria/session"
	"talaria/session/settings"
)

// TestOnlyExecutionsWithoutAnEffectOutsideAreRefundable checks the list, and that the next server says the same.
func TestOnlyExecutionsWithoutAnEffectOutsideAreRefundable(t *testing.T) {
	root := t.TempDir()
	h := newToolHost(func(c *toolCell) {
		if c.code != "" {
			c.Call(c.code, `{"path":"a"}`)
		}
	})
	r := newRig(t, nil, func(cfg *session.Config) {
		cfg.Host, cfg.MountRoots, cfg.Network.MaxMode = h, []settings.MountRoot{{Name: root, Path: root}}, api.NetworkFull
	})
	mount := func(mode string) *[]api.Mount { return &[]api.Mount{{Source: root, Target: "/data", Mode: mode}} }
	requests := map[string]api.SessionRequest{
		"plain": {}, "readable": {Mounts: mount("ro")}, "writable": {Mounts: mount("rw")},
		"network": {Network: &api.Network{Mode: api.NetworkFull}},
	}
	wants := []struct {
		session, tool string
		refundable    bool
	}{
		{"plain", "", true}, {"plain", "read_file", true}, {"plain", "nothing", true}, {"plain", "lookup", false},
		{"readable", "read_file", true}, {"writable", "", false}, {"network", "", false},
	}
	for id, req := range requests {
		req.ID = &id
		client := newToolClient()
		s := r.session(req)
		provide(t, s, client, "", api.Tool{Name: "lookup"})
		for _, one := range wants {
			if one.session != id {
				continue
			}
			execution := submit(t, s, one.tool)
			if e, err := s.Executions().Get(t.Context(), execution); err != nil || !e.Status.Final() && e.Refundable {
				t.Errorf("%s, %q, before its end: %v (%v)", id, one.tool, e.Refundable, err)
			}
			if one.tool == "lookup" {
				call := next(t, client.requests)
				if err := s.Tools().Answer(client, api.ToolResult{CallID: call.CallID, Result: api.Raw("1")}); err != nil {
					t.Error(err)
				}
			}
			if e := wait(t, s, execution); e.Refundable != one.refundable || api.ExecuteCode(e).Refundable != one.refundable {
				t.Errorf("%s, %q: %v", id, one.tool, e.Refundable)
			}
		}
	}
	r.leave()
	r.open()
	for id := range requests {
		s, err := r.Get("ann", id)
		if err != nil {
			t.Fatal(err)
		}
		list := executions(t, s)
		for _, one := range wants {
			if one.session != id {
				continue
			}
			e := list[len(list)-1]
			if list = list[:len(list)-1]; e.Code != one.tool || e.Refundable != one.refundable {
				t.Errorf("%s, %q, under the next server: %q %v", id, one.tool, e.Code, e.Refundable)
			}
		}
		s.Release()
	}
}

// TestACallOutsideIsRememberedWhenTheServerIsKilled ends the execution under the next server, with a call that is long over.
func TestACallOutsideIsRememberedWhenTheServerIsKilled(t *testing.T) {
	first := make(chan bool)
	r, _ := toolRig(t, func(c *toolCell) {
		c.Call("lookup", "{}")
		<-first
	})
	s := r.session(api.SessionRequest{ID: ptr("x")})
	client := newToolClient()
	provide(t, s, client, "", api.Tool{Name: "lookup"})
	id := submit(t, s, "")
	call := next(t, client.requests)
	if err := s.Tools().Answer(client, api.ToolResult{CallID: call.CallID, Result: api.Raw("1")}); err != nil {
		t.Fatal(err)
	}
	waitFor(t, s, id, "tool_result")
	r.kill()
	r.open()
	s, err := r.Get("ann", "x")
	if err != nil {
		t.Fatal(err)
	}
	close(first)
	if e := wait(t, s, id); e.Status != api.StatusOK || e.Refundable {
		t.Errorf("%+v", e)
	}
}

// TestANetworkThatOpensForAWhileIsRemembered closes it again before the cell ends.
func TestANetworkThatOpensForAWhileIsRemembered(t *testing.T) {
	r := scripted(t, func(c *session.Config) { c.Network.MaxMode = api.NetworkFull })
	s := r.session(api.SessionRequest{})
	defer s.Attach()()
	for _, modes := range [][]api.NetworkMode{{}, {api.NetworkFull, api.NetworkNone}} {
		id := submit(t, s, "ask", allowStdin)
		waitFor(t, s, id, "input_request")
		for _, mode := range modes {
			if err := s.Update(t.Context(), api.SessionPatch{Network: &api.Network{Mode: mode}}); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.Input(t.Context(), api.InputRequest{Value: "yes"}); err != nil {
			t.Fatal(err)
		}
		if e := wait(t, s, id); e.Refundable != (len(modes) == 0) {
			t.Errorf("%v: refundable is %v", modes, e.Refundable)
		}
	}
	if e := execute(t, s, "print 1"); !e.Refundable {
		t.Error("the next cell is not refundable")
	}
}

func TestAnInstallationIsNotRefundable(t *testing.T) {
	r, _ := packaged(t, nil)
	s := r.session(api.SessionRequest{})
	if e := execute(t, s, "install a==1"); e.Status != api.StatusOK || e.Refundable {
		t.Errorf("%+v", e)
	}
}
