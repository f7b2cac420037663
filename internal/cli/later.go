package cli

import (
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// What is described but not there yet is refused by name: ignoring it, or calling it
// unknown, would leave people guessing.

const notHereMark = "redrive_not_here"

// notHereFlags makes flags that are refused when they are given.
func notHereFlags(fs *pflag.FlagSet, names ...string) {
	for _, name := range names {
		fs.String(name, "", "")
		flag := fs.Lookup(name)
		flag.Hidden = true
		flag.Annotations = map[string][]string{notHereMark: {name}}
	}
}

func refuseNotHere(cmd *cobra.Command) error {
	var err error
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if _, marked := f.Annotations[notHereMark]; marked && err == nil {
			err = &failure{exitUsage, fmt.Errorf("--%s %w", f.Name, errNotHere)}
		}
	})
	return err
}
