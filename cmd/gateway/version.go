package main

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"
)

func versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version, the commit, Go's version and the platform",
		Args:  noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			facts := []string{runtime.Version(), runtime.GOOS + "/" + runtime.GOARCH}
			if info, ok := debug.ReadBuildInfo(); ok {
				if c := commit(info.Settings); c != "" {
					facts = append([]string{"commit " + c}, facts...)
				}
			}
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "gateway %s (%s)\n", version, strings.Join(facts, ", "))
			return err
		},
	}
}

// commit is the one that a binary was built of, "" where the build knew of none: outside of a clone, and in the image that
// is built from source. What was not committed shows as "with changes".
func commit(settings []debug.BuildSetting) string {
	var revision, changes string
	for _, s := range settings {
		switch {
		case s.Key == "vcs.revision":
			revision = s.Value
		case s.Key == "vcs.modified" && s.Value == "true":
			changes = " with changes"
		}
	}
	if revision == "" {
		return ""
	}
	return revision[:min(len(revision), 12)] + changes
}
