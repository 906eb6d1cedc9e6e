package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"talaria/kernel"
)

func doctorCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "doctor",
		Short: "Say what this machine can do, and what to do where it cannot",
		Long: `Say what this machine can do, and what to do where it cannot.

Exit status: 0 when talaria serve can run here, though maybe with less than all limits; 1 when it cannot.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := load(cmd)
			if err != nil {
				return err
			}
			findings, fit := examine(cmd.Context(), c)
			printFindings(cmd.OutOrStdout(), findings)
			if !fit {
				return exitError(1)
			}
			return nil
		},
	}
}

// examine looks at the state directory, the Pythons and the isolation, and leaves nothing behind. fit reports whether
// a server can run.
func examine(ctx context.Context, c config) (findings []kernel.Finding, fit bool) {
	findings = []kernel.Finding{stateFinding(c.StateDir)}
	fit = findings[0].OK
	var python string
	for _, w := range append([]environment{{"default", c.Python}}, c.Environments...) {
		env, looked, err := kernel.DiscoverEnvironment(ctx, kernel.EnvironmentConfig{Name: w.Name, Python: w.Python})
		for _, f := range looked {
			if err == nil && !strings.Contains(f.Detail, env.Python+" ") {
				f.Remedy = "" // another one is used
			}
			findings = append(findings, f)
		}
		if err != nil {
			findings = append(findings, kernel.Finding{Name: "environment " + w.Name, Detail: err.Error(), Remedy: "install python3 (3.11 or newer), " +
				"or set python in " + filepath.Join(c.StateDir, "talaria.yaml")})
			fit = false
			continue
		}
		if python == "" {
			python = env.Python
		}
		findings = append(findings, kernel.Finding{
			Name: "environment " + w.Name, OK: true,
			Detail: fmt.Sprintf("Python %s at %s; %s", env.Version, env.Python, first(strings.Join(env.Modules, ", "), "no data libraries")),
		})
	}
	temp, err := os.MkdirTemp("", "talaria-doctor-")
	if err != nil {
		return append(findings, kernel.Finding{Name: "temporary files", Detail: err.Error(), Remedy: "make $TMPDIR writable"}), false
	}
	defer os.RemoveAll(temp)
	c.StateDir = temp
	backend, err := newBackend(c, python, slog.New(slog.DiscardHandler))
	if err != nil {
		return append(findings, kernel.Finding{Name: "isolation", Detail: err.Error(), Remedy: "see the detail"}), false
	}
	probe := backend.Probe(ctx)
	return append(findings, probe.Findings...), fit && probe.OK
}

func stateFinding(dir string) kernel.Finding {
	f := kernel.Finding{Name: "state directory", OK: true, Detail: dir}
	info, err := os.Stat(dir)
	switch {
	case os.IsNotExist(err):
		f.Detail += " (is made at the first start)"
	case err != nil:
		f.OK, f.Detail, f.Remedy = false, err.Error(), "pick another with --state-dir"
	case !info.IsDir():
		f.OK, f.Detail, f.Remedy = false, dir+" is no directory", "pick another with --state-dir"
	case info.Mode().Perm()&0o077 != 0:
		f.Detail += fmt.Sprintf(" (mode %04o: others can look into it; chmod 700)", info.Mode().Perm())
	}
	return f
}

// printFindings prints one line a finding, and what to do below those that are not well.
func printFindings(w io.Writer, findings []kernel.Finding) {
	width := 0
	for _, f := range findings {
		width = max(width, len(f.Name))
	}
	for _, f := range findings {
		mark := "ok"
		if !f.OK {
			mark = "--"
		}
		fmt.Fprintf(w, "%s  %-*s  %s\n", mark, width, f.Name, f.Detail)
		if f.Remedy != "" {
			fmt.Fprintf(w, "    %-*s  do: %s\n", width, "", f.Remedy)
		}
	}
}
