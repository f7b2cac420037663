package cli

import (
	"slices"

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
