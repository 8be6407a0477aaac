package cmdline

import (
	"maps"
	"slices"

	"github.com/spf13/cobra"

	"github.com/waybill-dev/waybill/internal/config"
)

// CompleteConfigured returns a completer that offers the names in the configuration.
func CompleteConfigured(a *App, words func(cfg config.Config, given []string) []string) Completer {
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

// HandlerNames returns the handlers that actions may have.
func HandlerNames(cfg config.Config, _ []string) []string {
	return sortedKeys(cfg.Handlers, config.TypeNoop, config.SubscriberHandler, "step", "build", "gate")
}

// OrderNames returns the handlers that people add actions for.
func OrderNames(cfg config.Config, _ []string) []string {
	return sortedKeys(cfg.Handlers, config.TypeNoop)
}

func ProcessNames(cfg config.Config, _ []string) []string { return sortedKeys(cfg.Processes) }

func ConductorNames(cfg config.Config, _ []string) []string { return sortedKeys(cfg.Conductors) }

// CompleteAssignments returns a completer for the beginning of NAME=VALUE.
func CompleteAssignments(a *App, names func(cfg config.Config, of string) []string) Completer {
	begin := CompleteConfigured(a, func(cfg config.Config, given []string) []string {
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

func ParameterNames(cfg config.Config, handler string) []string {
	var names []string
	for _, p := range cfg.Handlers[handler].Parameters {
		names = append(names, p.Name)
	}
	return names
}

func InputNames(cfg config.Config, process string) []string {
	var names []string
	for _, v := range cfg.Processes[process].Inputs() {
		names = append(names, v.Name)
	}
	return names
}
