package build

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/cli/cmdline"
)

// completeFile offers names of the build's file.
func completeFile(a *cmdline.App, names func(*build.File) []string) cmdline.Completer {
	return func(c *cobra.Command, given []string, _ string) ([]string, cobra.ShellCompDirective) {
		root := a.Dir
		if len(given) > 0 {
			root = a.Path(given[0])
		}
		name, _ := c.Flags().GetString("file") // the flag is declared
		file, _, err := builder(a).ReadFile(root, name, name, false)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return names(file), cobra.ShellCompDirectiveNoFileComp
	}
}

// completeInputs offers the names of the inputs of the build's file, and the values of choices.
func completeInputs(a *cmdline.App) cmdline.Completer {
	return func(c *cobra.Command, given []string, begun string) ([]string, cobra.ShellCompDirective) {
		const plain = cobra.ShellCompDirectiveNoFileComp
		root := a.Dir
		if len(given) > 0 {
			root = a.Path(given[0])
		}
		name, err := c.Flags().GetString("file")
		if err != nil {
			return nil, plain
		}
		file, _, err := builder(a).ReadFile(root, name, name, false)
		if err != nil {
			return nil, plain
		}
		words := inputWords(file.Inputs, begun)
		if len(words) == 1 && strings.HasSuffix(words[0], "=") {
			return words, plain | cobra.ShellCompDirectiveNoSpace
		}
		return words, plain
	}
}

// inputWords returns name= for each input, and once a name has been written name=value for each of
// its accepted values.
func inputWords(inputs []build.Input, begun string) []string {
	var words []string
	for _, in := range inputs {
		pair := in.Name + "="
		switch {
		case strings.HasPrefix(begun, pair):
			words = nil
			for _, value := range in.Values {
				words = append(words, pair+value)
			}
			return words
		case strings.HasPrefix(pair, begun):
			words = append(words, pair)
		}
	}
	return words
}
