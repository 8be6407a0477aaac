package cli

import (
	"maps"
	"slices"

	"github.com/spf13/cobra"

	"github.com/waybill-dev/waybill/internal/config"
)

// completeConfigured returns a completer that offers what the configuration has.
func completeConfigured(a *app, words func(cfg config.Config, given []string) []string) completer {
	return func(_ *cobra.Command, given []string, _ string) ([]string, cobra.ShellCompDirective) {
		cfg, _, err := a.Config(a.HomeOf(a.Dir))
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return words(cfg, given), cobra.ShellCompDirectiveNoFileComp
	}
}

// sortedKeys returns the keys of a map and some other words, each once and in order.
func sortedKeys[V any](m map[string]V, more ...string) []string {
	return slices.Compact(slices.Sorted(slices.Values(append(more, slices.Collect(maps.Keys(m))...))))
}

// handlerNames returns the handlers that actions may have.
func handlerNames(cfg config.Config, _ []string) []string {
	return sortedKeys(cfg.Handlers, config.TypeNoop, config.SubscriberHandler, "step", "build", "gate")
}

// orderNames returns the handlers that people add actions for.
func orderNames(cfg config.Config, _ []string) []string {
	return sortedKeys(cfg.Handlers, config.TypeNoop)
}

func processNames(cfg config.Config, _ []string) []string { return sortedKeys(cfg.Processes) }

func conductorNames(cfg config.Config, _ []string) []string { return sortedKeys(cfg.Conductors) }

// completeAssignments returns a completer for the beginning of NAME=VALUE.
func completeAssignments(a *app, names func(cfg config.Config, of string) []string) completer {
	begin := completeConfigured(a, func(cfg config.Config, given []string) []string {
		if len(given) == 0 {
			return nil
		}
		var words []string
		for _, name := range names(cfg, given[0]) {
			words = append(words, name+"=")
		}
		return words
	})
	return func(c *cobra.Command, given []string, begun string) ([]string, cobra.ShellCompDirective) {
		words, directive := begin(c, given, begun)
		return words, directive | cobra.ShellCompDirectiveNoSpace
	}
}

func parameterNames(cfg config.Config, handler string) []string {
	var names []string
	for _, p := range cfg.Handlers[handler].Parameters {
		names = append(names, p.Name)
	}
	return names
}

func inputNames(cfg config.Config, process string) []string {
	var names []string
	for _, v := range cfg.Processes[process].Inputs() {
		names = append(names, v.Name)
	}
	return names
}
