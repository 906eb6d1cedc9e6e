package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"talaria/api"
	"talaria/kernel"
	"talaria/kernel/python"
	"talaria/kernel/sandbox"
	"talaria/server/mcp"
)

func doctorCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Check what this machine supports, and say how to fix what is missing",
		Long: `Check what this machine supports, and say how to fix what is missing.

Each line begins with ok, !! (works, but see the advice below it) or -- (missing).

With --battery it also starts a server in a temporary directory and tries to break out of its sessions, which takes
about half a minute.

Exit status: 0 if talaria serve can run here, possibly without some limits; 1 if it cannot, or if the battery breaks a
limit that should hold.`,
		Example: `  talaria doctor
  talaria doctor --json | jq '.findings[] | select(.mark != "ok")'
  talaria doctor --battery`,
		Args: arguments(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := load(cmd)
			if err != nil {
				return err
			}
			if err := c.checkMachine(cmd.Context()); err != nil {
				return err
			}
			findings, fit := examine(cmd.Context(), c)
			if err := context.Cause(cmd.Context()); err != nil { // what it killed says nothing about the machine
				return err
			}
			if asJSON(cmd) {
				err = printFindingsJSON(cmd.OutOrStdout(), findings, fit)
			} else {
				printFindings(cmd.OutOrStdout(), findings)
			}
			if err != nil {
				return err
			}
			if try, _ := cmd.Flags().GetBool("battery"); try && fit {
				fit, err = runBattery(cmd.Context(), c, configFile(cmd), cmd.OutOrStdout())
				if err != nil {
					return err
				}
			}
			if !fit {
				return exitError(1)
			}
			return nil
		},
	}
	cmd.Flags().String("tier", "", "isolation tier, namespace or landlock (default: the best that works)")
	cmd.Flags().String("min-tier", defaults().MinTier, "minimum acceptable isolation tier")
	cmd.Flags().Bool("battery", false, "try to break out of sessions, and print the results")
	addJSON(cmd)
	return cmd
}

// examine looks at the state directory, the Pythons and the isolation, and leaves nothing behind. fit reports whether
// a server can run.
func examine(ctx context.Context, c config) (findings []kernel.Finding, fit bool) {
	findings = []kernel.Finding{stateFinding(c.StateDir), mcpFinding(c)}
	findings = append(findings, c.frontFindings()...)
	fit = findings[0].OK
	var found []kernel.Environment
	discovered := python.DiscoverEnvironments(ctx, c.pythons(""))
	for i, w := range c.environments() {
		env, looked, err := discovered[i].Environment, discovered[i].Findings, discovered[i].Err
		for _, f := range looked {
			other := strings.HasPrefix(f.Name, "python ") && !strings.Contains(f.Detail, env.Python+" ")
			if err == nil && other {
				f.Remedy = "" // another one is used
			}
			findings = append(findings, f)
		}
		if last := len(looked) - 1; err != nil && last >= 0 && strings.HasPrefix(looked[last].Name, "engine ") {
			fit = false // the finding says it all
			continue
		}
		if err != nil {
			findings = append(findings, kernel.Finding{Name: "environment " + w.Name, Detail: err.Error(), Remedy: "install python3 (3.11 or newer), " +
				"or set python in " + filepath.Join(c.StateDir, "talaria.yaml")})
			fit = false
			continue
		}
		env.Preload = w.Preload
		if i == 0 {
			findings = append(findings, toolchainFinding(env.Python))
		}
		found = append(found, env)
		findings = append(findings, kernel.Finding{
			Name: "environment " + w.Name, OK: true,
			Detail: fmt.Sprintf("Python %s at %s; %s", env.Version, env.Python, first(strings.Join(env.Modules, ", "), "no data libraries")),
		}, c.Packages.finding(ctx, env))
	}
	held, holds := diskFindings(ctx, c)
	fit = fit && holds
	// Next to the state directory, so that what is in the way of that one is in the way here.
	temp, err := os.MkdirTemp(filepath.Dir(c.StateDir), ".talaria-doctor-")
	if err != nil {
		temp, err = os.MkdirTemp("", "talaria-doctor-")
	}
	if err != nil {
		return append(findings, kernel.Finding{Name: "temporary files", Detail: err.Error(), Remedy: "make $TMPDIR writable"}), false
	}
	defer os.RemoveAll(temp)
	c.StateDir = temp
	var tried kernel.Environment
	if len(found) > 0 {
		tried = found[0]
	}
	environment := func() (kernel.Environment, error) { return tried, nil }
	backend, isolation, err := isolate(ctx, c, environment, "doctor-"+filepath.Base(temp), slog.New(slog.DiscardHandler))
	findings = append(findings, isolation...)
	if errors.Is(err, errNoIsolation) {
		return append(findings, survivalFinding()), false
	}
	if err != nil {
		return append(findings, kernel.Finding{Name: "isolation", Detail: err.Error(), Remedy: "fix this error"}), false
	}
	defer backend.Close()
	findings = append(findings, held...)
	for _, env := range found {
		findings = append(findings, warmFindings(ctx, backend, env)...)
	}
	return append(findings, survivalFinding()), fit
}

// warmFindings tries a fork server of the environment.
func warmFindings(ctx context.Context, backend *sandbox.Backend, env kernel.Environment) []kernel.Finding {
	f := kernel.Finding{Name: "fast starts of " + env.Name, OK: true}
	begin := time.Now()
	if err := backend.Warm(ctx, env); err != nil {
		f.OK, f.Detail, f.Remedy = false, err.Error(), "fix this error; until then, sessions start slowly"
		return []kernel.Finding{f}
	}
	skipped := backend.Skipped(env)
	f.Detail = fmt.Sprintf("libraries preloaded in %d ms: %s", time.Since(begin).Milliseconds(), strings.Join(env.Preload, ", "))
	if len(skipped) > 0 {
		f.Detail += fmt.Sprintf(" (%d of them are missing, see below)", len(skipped))
	}
	return append([]kernel.Finding{f}, skipped...)
}

// survivalFinding says whether kernels outlive the server here.
func survivalFinding() kernel.Finding {
	f := kernel.Finding{Name: "kernels outlive the server", OK: true, Detail: "the host is a separate process"}
	line, err := os.ReadFile("/proc/1/cmdline")
	args := strings.Split(string(line), "\x00")
	if err == nil && len(args) > 1 && filepath.Base(args[0]) == "talaria" && args[1] == "serve" {
		f.OK, f.Detail = false, "talaria serve is process 1 here; when it exits, the whole container ends"
		f.Remedy = "use " + program + " host --supervise as the container's entry point"
	}
	return f
}

// mcpFinding has the lines for the configuration of a client of the Model Context Protocol.
func mcpFinding(c config) kernel.Finding {
	f := kernel.Finding{Name: "MCP clients", OK: true}
	if c.MCP == mcp.ToolsOff {
		f.Detail = "disabled by mcp: off"
		return f
	}
	type launch struct {
		Command string   `json:"command"`
		Args    []string `json:"args"`
	}
	own := launch{"talaria", []string{"mcp"}}
	if path, err := os.Executable(); err == nil {
		own.Command = path
	}
	if c.StateDir != defaultStateDir() {
		own.Args = append(own.Args, "--state-dir", c.StateDir)
	}
	line, err := api.Marshal(map[string]map[string]launch{"mcpServers": {"talaria": own}})
	if err != nil {
		f.OK, f.Detail = false, err.Error()
		return f
	}
	f.Detail = "add this to the client's configuration: " + string(line)
	return f
}

func stateFinding(dir string) kernel.Finding {
	f := kernel.Finding{Name: "state directory", OK: true, Detail: dir}
	info, err := os.Stat(dir)
	switch {
	case os.IsNotExist(err):
		f.Detail += " (created on first start)"
	case err != nil:
		f.OK, f.Detail, f.Remedy = false, err.Error(), "choose another with --state-dir"
	case !info.IsDir():
		f.OK, f.Detail, f.Remedy = false, dir+" is not a directory", "choose another with --state-dir"
	case info.Mode().Perm()&0o066 != 0:
		f.Detail += fmt.Sprintf(" (mode %04o: other users can read it)", info.Mode().Perm())
		f.Remedy = "chmod go-rw " + dir
	}
	return f
}

// The marks of findings.
const (
	markOK      = "ok"
	markWarning = "!!" // it works, but could do better
	markMissing = "--"
)

var markStyles = map[string]string{markOK: dim, markWarning: bold, markMissing: red}

func markOf(f kernel.Finding) string {
	switch {
	case !f.OK:
		return markMissing
	case f.Remedy != "":
		return markWarning
	}
	return markOK
}

// folded joins neighbours that have the same name, outcome and remedy into one finding.
func folded(findings []kernel.Finding) []kernel.Finding {
	var list []kernel.Finding
	for _, f := range findings {
		if last := len(list) - 1; last >= 0 && list[last].Name == f.Name && list[last].OK == f.OK && list[last].Remedy == f.Remedy {
			list[last].Detail += "; " + f.Detail
			continue
		}
		list = append(list, f)
	}
	return list
}

func printFindingsJSON(w io.Writer, findings []kernel.Finding, fit bool) error {
	type one struct {
		Name   string `json:"name"`
		Mark   string `json:"mark"`
		Detail string `json:"detail"`
		Remedy string `json:"remedy,omitzero"`
	}
	all := []one{}
	for _, f := range folded(findings) {
		all = append(all, one{f.Name, markOf(f), f.Detail, f.Remedy})
	}
	return printJSON(w, struct {
		Fit      bool  `json:"fit"`
		Findings []one `json:"findings"`
	}{fit, all})
}

// printFindings prints one line a finding, and its remedy below.
func printFindings(w io.Writer, findings []kernel.Finding) {
	findings = folded(findings)
	width := 0
	for _, f := range findings {
		width = max(width, len(f.Name))
	}
	for _, f := range findings {
		mark := markOf(f)
		fmt.Fprintf(w, "%s  %-*s  %s\n", styled(w, markStyles[mark], mark), width, f.Name, f.Detail)
		if f.Remedy != "" {
			fmt.Fprintf(w, "    %-*s  do: %s\n", width, "", f.Remedy)
		}
	}
}
