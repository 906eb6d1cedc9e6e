package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
)

// loaded is the configuration of talaria serve with a file and flags.
func loaded(t *testing.T, file string, flags ...string) (config, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "talaria.yaml")
	if err := os.WriteFile(path, []byte(file), 0o600); err != nil {
		t.Fatal(err)
	}
	var c config
	var failed error
	root := command()
	for _, cmd := range root.Commands() {
		if cmd.Name() == "serve" {
			cmd.RunE = func(cmd *cobra.Command, _ []string) error { c, failed = load(cmd); return nil }
		}
	}
	root.SetArgs(append([]string{"serve", "--config", path, "--state-dir", t.TempDir()}, flags...))
	if err := root.Execute(); err != nil {
		t.Fatal(err)
	}
	return c, failed
}

func TestAMistakeInTheConfigurationIsAnError(t *testing.T) {
	for name, c := range map[string]struct{ file, want string }{
		"unknown key":             {"pool: 1\nadr: x", `talaria\.yaml:2: unknown key "adr"; did you mean "addr"\?`},
		"capitals":                {"Addr: x", `unknown key "Addr"; did you mean "addr"\?`},
		"beginning of a key":      {"limits:\n  memory: 5", `talaria\.yaml:2: unknown key "limits\.memory"; did you mean "memory_bytes"\?`},
		"nothing near":            {"wholly_other: 1", `unknown key "wholly_other"; talaria config lists the keys`},
		"key of an environment":   {"environments:\n  - name: a\n    pyhton: /x", `yaml:3: unknown key "environments\[0\]\.pyhton"; did you mean "python"\?`},
		"no section":              {"limits: 5", `limits must be a mapping`},
		"no whole number":         {"pool: x", `yaml:1: pool must be a whole number, not "x"`},
		"duration without a unit": {"idle_timeout: 5", `yaml:1: idle_timeout must be a duration with a unit, such as 90s, 30m or 12h, not "5"`},
		"both spellings":          {"idle-timeout: 5m\nidle_timeout: 5m", `yaml:2: "idle_timeout" is given twice`},
		"list for a word":         {"tz: [UTC]", `yaml:1: tz must be text`},
		"negative pool":           {"pool: -7", `yaml:1: pool must be from 0 to 1000, not -7$`},
		"large pool":              {"pool: 100000", `yaml:1: pool must be from 0 to 1000, not 100000; kernels that are not ready are started`},
		"low user ids":            {"uid_base: 5", `yaml:1: uid_base must be from 5096 to 4293918719, not 5$`},
		"high user ids":           {"uid_base: 4294967000", `yaml:1: uid_base must be from 5096 to 4293918719, not 4294967000; sessions get user ids from this one up`},
		"short idle time":         {"idle_timeout: 1ns", `yaml:1: idle_timeout must be 0 \(never\) or from 1s to 87600h, not 1ns$`},
		"long idle time":          {"idle_timeout: 100000h", `yaml:1: idle_timeout must be 0 \(never\) or from 1s to 87600h, not 100000h$`},
		"short client time":       {"client_timeout: 1ns", `yaml:1: client_timeout must be at least 1s, not 1ns$`},
		"no client time":          {"client_timeout: 0", `yaml:1: client_timeout must be at least 1s, not 0s$`},
		"short orphan time":       {"orphan_ttl: 1ns", `yaml:1: orphan_ttl must be at least 1s, not 1ns$`},
		"short run":               {"run:\n  max_time: 1ns", `yaml:2: run\.max_time must be at least 1s, not 1ns$`},
		"long grace":              {"interrupt_grace: 100h", `yaml:1: interrupt_grace must be 0 \(2s\) or from 100ms to 1m, not 100h$`},
		"short grace":             {"interrupt_grace: 1ns", `yaml:1: interrupt_grace must be 0 \(2s\) or from 100ms to 1m, not 1ns$`},
		"large inline files":      {"inline_bytes: 99999999999999", `yaml:1: inline_bytes must be from 0 to 16777216, not 99999999999999; clients download larger files`},
		"negative reserve":        {"disk_reserve: -1", `yaml:1: disk_reserve must be at least 0, not -1$`},
		"origin":                  {"origins: [foo]", `yaml:1: origins must list origins such as https://chat\.example\.org: origin "foo" is not of the form`},
		"any origin":              {"origins: ['*']", `origin "\*" is not of the form`},
		"origins by pattern":      {"origins: ['https://*.example.org']", `origin "https://\*\.example\.org" is not of the form`},
		"origin with a path":      {"origins: ['https://a.example.org/chat']", `origin "https://a\.example\.org/chat" is not of the form`},
		"origin with a port":      {"origins: ['https://a.example.org:99999']", `origin "https://a\.example\.org:99999" is not of the form`},
		"word":                    {"disk: much", `yaml:1: disk must be auto, quota, image or watched, not "much"`},
		"least value":             {"limits:\n  memory_bytes: 1", `yaml:2: limits\.memory_bytes must be at least 67108864$`},
		"ceiling":                 {"limits:\n  memory_bytes: 99999999999999", `yaml:2: limits\.memory_bytes: 99999999999999 is above the operator's ceiling of 17179869184`},
		"low ceiling":             {"pool: 1\nceilings:\n  memory_bytes: 1000", `yaml:3: ceilings\.memory_bytes is too low: limits\.memory_bytes must be at least 67108864$`},
		"negative ceiling":        {"ceilings:\n  pids: -1", `yaml:2: ceilings\.pids must be from 0 \(no ceiling\) to 4194304, not -1$`},
		"high ceiling":            {"limits:\n  cpus: 2\nceilings:\n  memory_bytes: 9999999999999999", `yaml:4: ceilings\.memory_bytes must be from 0 \(no ceiling\) to 1125899906842624, not 9999999999999999$`},
		"no code of the API":      {"network:\n  max_mode: all", `yaml:2: network\.max_mode must be "none"`},
		"address":                 {"addr: '9999'", `addr must be HOST:PORT or :PORT, not "9999"`},
		"port":                    {"addr: ':99999'", `addr needs a port`},
		"address of a front":      {"fronts:\n  jupyter:\n    addr: '9999'", `yaml:3: fronts\.jupyter\.addr must be HOST:PORT or :PORT, not "9999"`},
		"socket":                  {"fronts:\n  hermes:\n    socket: here", `fronts\.hermes: the socket "here" must be an absolute path`},
		"user":                    {"fronts:\n  hermes:\n    uids: [me]", `yaml:3: fronts\.hermes\.uids\[0\] must be a whole number, not "me"`},
		"folder":                  {"fronts:\n  hermes:\n    socket: /run/s\n    folder: /home", `yaml:4: fronts\.hermes\.folder must be /mnt or /data, or a path`},
		"folder that is no root":  {"fronts:\n  hermes:\n    socket: /run/s\n    folder: /mnt/a", `yaml:4: fronts\.hermes\.folder "/mnt/a" must be in one of the mount_roots`},
		"front":                   {"fronts:\n  jupiter:\n    enabled: true", `yaml:2: unknown key "fronts\.jupiter"; did you mean "jupyter"\?`},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := loaded(t, c.file)
			if err == nil || !regexp.MustCompile(c.want).MatchString(err.Error()) {
				t.Errorf("%q: %v, want %s", c.file, err, c.want)
			}
		})
	}
}

func TestFlagsOverrideVariablesWhichOverrideTheFile(t *testing.T) {
	t.Setenv("TALARIA_POOL", "3")
	t.Setenv("TALARIA_LIMITS__PIDS", "77")
	t.Setenv("TALARIA_FRONTS__HERMES__UIDS", "1000, 0")
	t.Setenv("TALARIA_IDLE_TIMEOUTS", "1h")
	c, err := loaded(t, "pool: 1\nidle-timeout: 2h\nredact: [a, 'b,c']\npreload:\n", "--idle-timeout", "3h")
	if err != nil {
		t.Fatal(err)
	}
	if c.Pool != 3 || c.Limits.PIDs != 77 || c.IdleTimeout != 3*time.Hour || len(c.Redact) != 2 || len(c.Preload) != len(preload) ||
		!slices.Equal(c.Fronts.Hermes.UIDs, []int{1000, 0}) {
		t.Errorf("configuration: %+v", c)
	}
	for key, want := range map[string]string{"pool": "TALARIA_POOL", "idle_timeout": "--idle-timeout", "limits.pids": "TALARIA_LIMITS__PIDS"} {
		if c.sources[key] != want {
			t.Errorf("%s comes from %q, want %q", key, c.sources[key], want)
		}
	}
	warnings := strings.Join(c.warnings, "\n")
	for _, want := range []string{`"idle-timeout" is the old spelling of "idle_timeout"`, `TALARIA_IDLE_TIMEOUTS is ignored: unknown key "idle_timeouts"; did you mean "idle_timeout"?`} {
		if !strings.Contains(warnings, want) {
			t.Errorf("warnings %q, want %q", warnings, want)
		}
	}
}

func TestADefaultFollowsALowerCeiling(t *testing.T) {
	c, err := loaded(t, "ceilings:\n  memory_bytes: 1073741824\n  cpus: 0.5\n  execution_cpu_s: 60\n")
	if err != nil || c.Limits.MemoryBytes != 1<<30 || c.Limits.CPUs != 0.5 || c.Limits.ExecutionCPUS != 60 || c.Limits.PIDs != defaults().Limits.PIDs {
		t.Errorf("limits %+v: %v", c.Limits, err)
	}
	if _, err := loaded(t, "limits:\n  cpus: 2\nceilings:\n  cpus: 1\n"); err == nil {
		t.Error("a limit that is set above its ceiling is accepted")
	}
}

func TestTheDefaultsAreValid(t *testing.T) {
	if err := defaults().check(); err != nil {
		t.Error(err)
	}
}

func TestTheMachineMustHaveWhatIsConfigured(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for want, change := range map[string]func(*config){
		`"Mars/Base" is not a time zone that this machine knows`: func(c *config) { c.TZ = "Mars/Base" },
		"mount_roots has a directory that cannot be used":        func(c *config) { c.MountRoots = []string{"/nope"} },
		"is not a directory; choose another":                     func(c *config) { c.StateDir = file },
		"TALARIA_TOKEN has 3 characters":                         func(c *config) { c.Token = "abc" },
		"disk_reserve must be less than the disk":                func(c *config) { c.DiskReserve = 99999999999999999 },
		"memory_reserve must be less than the memory":            func(c *config) { c.MemoryReserve = 99999999999999999 },
	} {
		c := defaults()
		c.StateDir = t.TempDir()
		if err := c.checkMachine(t.Context()); err != nil {
			t.Fatal(err)
		}
		change(&c)
		if err := c.checkMachine(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}
