package app

import (
	"cmp"
	"fmt"
	"runtime/debug"

	"github.com/spf13/cobra"

	"redrive/internal/ledger"
)

// buildInfo is what this binary was made of.
type buildInfo struct {
	version, revision, goVersion string
}

// build reads what Go wrote into the binary.
func build() buildInfo {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return buildInfo{version: "unknown", revision: "unknown", goVersion: "unknown"}
	}
	b := buildInfo{version: cmp.Or(info.Main.Version, "unknown"), revision: "unknown", goVersion: info.GoVersion}
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			b.revision = s.Value
		case s.Key == "vcs.modified" && s.Value == "true":
			b.revision += " (modified)"
		}
	}
	return b
}

func (b buildInfo) String() string {
	return fmt.Sprintf("%s (revision %s, %s, schema %d)", b.version, b.revision, b.goVersion, ledger.Schema)
}

func (p *program) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print version, revision, Go version and schema number",
		Args:  cobra.NoArgs,
		RunE: p.begin(func(*cobra.Command, []string) error {
			_, err := fmt.Fprintf(p.stdout, "worker %s\n", build())
			return err
		}),
	}
}
