package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

func versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			info, _ := debug.ReadBuildInfo()
			_, err := fmt.Fprintln(cmd.OutOrStdout(), versionText(info))
			return err
		},
	}
}

// versionText tells what the go command wrote into the binary. info may be nil.
func versionText(info *debug.BuildInfo) string {
	version, commit, dirty := "unknown", "", ""
	if info != nil {
		if info.Main.Version != "" {
			version = info.Main.Version
		}
		for _, s := range info.Settings {
			switch {
			case s.Key == "vcs.revision":
				commit = " commit " + s.Value[:min(12, len(s.Value))]
			case s.Key == "vcs.modified" && s.Value == "true":
				dirty = " (modified)"
			}
		}
	}
	return fmt.Sprintf("zlnode %s%s%s %s %s/%s", version, commit, dirty, runtime.Version(), runtime.GOOS, runtime.GOARCH)
}
