package e2e

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"talaria/battery"
)

// batteryTime bounds one run of the battery.
const batteryTime = 20 * time.Minute

// TestTheBatteryEndsAsItsTablesSay runs every check in both tiers, as root and as an ordinary user, for forked and for cold
// sessions: each pair of these three in one of four runs, and all eight combinations where E2E_ALL is set; with -short only
// forked ones as root in tier namespace and as an ordinary user in tier landlock.
// BATTERY, a regular expression, chooses checks.
func TestTheBatteryEndsAsItsTablesSay(t *testing.T) {
	only, err := regexp.Compile(os.Getenv("BATTERY"))
	if err != nil {
		t.Fatal(err)
	}
	everyTier(t, func(t *testing.T, tier string, who identity) {
		var differences []string
		t.Cleanup(func() { // repeated at the end, where a reader looks first
			for _, d := range differences {
				t.Log(d)
			}
		})
		s := start(t, options{as: who, args: []string{"--interrupt-grace", "5s", "--tier", tier, "--log-level", "warn"}})
		table, err := battery.ReadTable(tier + "-" + string(who))
		if err != nil {
			t.Fatal(err)
		}
		for _, strict := range []bool{false, true} {
			paired := strict == ((tier == "landlock") != (who == asUser))
			if os.Getenv("E2E_ALL") == "" && os.Getuid() == 0 && !paired {
				continue
			}
			t.Run(map[bool]string{false: "forked", true: "cold"}[strict], func(t *testing.T) {
				differences = append(differences, runBattery(t, s, table, battery.Server{
					Client: s.Client(), URL: s.URL, Token: s.Token, Other: s.owner(t, fmt.Sprint("other-", strict)), Strict: strict,
				}, only)...)
			})
			if who == asRoot && !strict && !testing.Short() {
				t.Run("woken", func(t *testing.T) {
					differences = append(differences, runBattery(t, s, table, battery.Server{
						Client: s.Client(), URL: s.URL, Token: s.Token, Other: s.owner(t, "other-woken"), Woken: true,
					}, only)...)
				})
			}
		}
	})
}

// runBattery runs the checks selected by only, and returns how results differ from the table; each difference is also
// an error of t.
func runBattery(
	t *testing.T, s *Server, table battery.Table, server battery.Server, only *regexp.Regexp,
) (differences []string) {
	ctx, cancel := context.WithTimeout(t.Context(), batteryTime)
	defer cancel()
	before := len(s.kernels(t))
	begin := time.Now()
	results, err := battery.Run(ctx, server, battery.Options{Parallel: 8, Only: only.MatchString})
	if err != nil {
		t.Fatal(err)
	}
	count := map[battery.Outcome]int{}
	for _, r := range results {
		count[r.Outcome]++
		if r.Took > 5*time.Second {
			t.Logf("%s took %.1f s", r.Check.Name, r.Took.Seconds())
		}
		if difference := table.Differs(r); difference != "" {
			differences = append(differences, fmt.Sprintf("%s %s (%d ms)", r.Check.Name, difference, r.Took.Milliseconds()))
			t.Error(differences[len(differences)-1])
		}
	}
	t.Logf("%d checks in %.1f s: %v", len(results), time.Since(begin).Seconds(), count)
	// Sessions that ended leave only the pool behind, whatever was done in them.
	if after := s.kernels(t); len(after) > before+8 {
		t.Errorf("%d processes were below the host, and now there are %d: %v", before, len(after), after)
	}
	return differences
}

func TestTheTablesOfTheBatteryNameEveryCheckOnce(t *testing.T) {
	checks := battery.Checks()
	names := map[string]bool{}
	inGroup := map[string]int{}
	for _, c := range checks {
		if names[c.Name] {
			t.Errorf("two checks are called %s", c.Name)
		}
		names[c.Name] = true
		inGroup[c.Group()]++
		if c.Judge == nil {
			t.Errorf("nobody judges %s", c.Name)
		}
	}
	if len(checks) < 120 || len(inGroup) != 12 {
		t.Errorf("%d checks in %d groups, want 120 or more in 12: %v", len(checks), len(inGroup), inGroup)
	}
	for _, name := range battery.Tables {
		table, err := battery.ReadTable(name)
		if err != nil {
			t.Fatal(err)
		}
		for check := range table {
			if !names[check] {
				t.Errorf("%s has %s, which is not a check", name, check)
			}
		}
		for check := range names {
			if _, ok := table[check]; !ok {
				t.Errorf("%s lacks %s", name, check)
			}
		}
	}
}

// checkName matches the names of checks in the document on security.
var checkName = regexp.MustCompile("`([a-z]+/[a-z0-9-]+|[a-z]+/\\*)`")

func TestEveryCheckThatTheDocumentOnSecurityNamesExists(t *testing.T) {
	text, err := os.ReadFile("../docs/security.md")
	if err != nil {
		t.Fatal(err)
	}
	checks := battery.Checks()
	found := 0
	for _, m := range checkName.FindAllStringSubmatch(string(text), -1) {
		found++
		group, all := strings.CutSuffix(m[1], "/*")
		if !slices.ContainsFunc(checks, func(c battery.Check) bool { return c.Name == m[1] || all && c.Group() == group }) {
			t.Errorf("docs/security.md names %s, which is not a check", m[1])
		}
	}
	if found < 40 {
		t.Errorf("docs/security.md names only %d checks", found)
	}
}
