package cli

import (
	"context"
	"slices"
	"time"

	"github.com/spf13/cobra"
)

// completeWords completes a flag with words of a closed list.
func completeWords[T ~string](cmd *cobra.Command, flag string, words []T) {
	list := make([]string, len(words))
	for i, w := range words {
		list[i] = string(w)
	}
	slices.Sort(list)
	err := cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(list, cobra.ShellCompDirectiveNoFileComp))
	if err != nil {
		panic("cli: complete --" + flag + ": " + err.Error()) // the flag was not registered before: a bug here
	}
}

// completeWithin is how long somebody who pressed tab waits for Redis.
const completeWithin = 2 * time.Second

// completeDependencies completes the first most arguments with the dependencies that
// are known. Where Redis cannot be asked there is nothing to offer, and nothing to say.
func (p *program) completeDependencies(cmd *cobra.Command, most int) {
	cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if len(args) >= most {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), completeWithin)
		defer cancel()
		server, err := p.serverNamed(cmd)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		p.server = server
		b, err := p.open(ctx, reads)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		defer b.close()
		deps, err := b.dependencies(ctx)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		var left []string
		for _, dep := range deps {
			if !slices.Contains(args, string(dep)) {
				left = append(left, string(dep))
			}
		}
		return left, cobra.ShellCompDirectiveNoFileComp
	}
}
