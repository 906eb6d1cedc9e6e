package settings_test

import (
	"errors"
	"testing"
	"time"

	"talaria/api"
	"talaria/kernel"
	"talaria/session/settings"
)

func operator() *settings.Operator {
	return &settings.Operator{
		Environments: []kernel.Environment{{Name: "default"}, {Name: "other"}},
		Defaults:     api.Limits{MemoryBytes: 1 << 30, DiskBytes: 1 << 30, DisplayBytes: 1 << 20, LogBytes: 1 << 30},
		Ceilings:     api.Limits{MemoryBytes: 2 << 30},
		IdleTimeout:  time.Minute,
	}
}

func TestARequestIsCompletedWithTheDefaults(t *testing.T) {
	disk := int64(4 << 30)
	got, err := operator().Check(api.SessionRequest{Limits: &api.LimitsRequest{DiskBytes: &disk}})
	if err != nil {
		t.Fatal(err)
	}
	if got.Environment.Name != "default" || got.IdleMS != 60_000 || got.Network.Mode != api.NetworkNone {
		t.Errorf("the settings are %+v", got)
	}
	if got.Limits.MemoryBytes != 1<<30 || got.Limits.ArtifactBytes != 2*disk {
		t.Errorf("the limits are %+v", got.Limits)
	}
}

func TestARequestAboveACeilingIsRefused(t *testing.T) {
	memory := int64(3 << 30)
	_, err := operator().Check(api.SessionRequest{Limits: &api.LimitsRequest{MemoryBytes: &memory}})
	if !errors.Is(err, api.Errorf(api.CodeLimitExceeded, "")) {
		t.Errorf("it ended with %v", err)
	}
}

func TestAConflictNamesTheFirstFieldThatDiffers(t *testing.T) {
	o := operator()
	present, err := o.Check(api.SessionRequest{})
	if err != nil {
		t.Fatal(err)
	}
	name, other, idle, none := "a name", "other", 5.0, api.Raw("false")
	pids := int64(64)
	for want, req := range map[string]api.SessionRequest{
		"":               {Name: &name}, // a name never conflicts
		"environment":    {Environment: &other},
		"idle_timeout_s": {IdleTimeoutS: &idle},
		"builtin_tools":  {BuiltinTools: none},
		"limits.pids":    {Limits: &api.LimitsRequest{PIDs: &pids}},
	} {
		asked, err := o.Check(req)
		if err != nil {
			t.Fatal(err)
		}
		if got := present.Conflict(req, asked); got != want {
			t.Errorf("%q differs, and the conflict is about %q", want, got)
		}
	}
}
