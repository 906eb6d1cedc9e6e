package main

import (
	"fmt"
	"runtime"
	"strings"

	"github.com/spf13/cobra"
)

// release is the version of the program; CHANGELOG and tags follow it.
const release = "v0.2.0"

// version is the build, as git describes it. It is set by the linker.
var version = "dev"

// fullVersion is the release with the build as a detail, such as v0.2.0+5241076.
func fullVersion() string {
	switch {
	case version == "dev":
		return release
	case strings.HasPrefix(version, release):
		return version
	}
	return release + "+" + version
}

func versionCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  arguments(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if asJSON, _ := cmd.Flags().GetBool("json"); asJSON {
				return printJSON(cmd.OutOrStdout(), map[string]string{
					"version": release, "build": version, "go": runtime.Version(), "platform": runtime.GOOS + "/" + runtime.GOARCH,
				})
			}
			_, err := fmt.Fprintln(cmd.OutOrStdout(), "talaria", fullVersion())
			return err
		},
	}
	addJSON(cmd)
	return cmd
}

func addJSON(cmd *cobra.Command) { cmd.Flags().Bool("json", false, "print JSON") }
