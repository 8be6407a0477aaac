package build

import (
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/waybill-dev/waybill/internal/cli/cmdline"
)

// choiceFlags lists the flags of waybill run that set the place and the work of steps, which a rerun gives again.
func choiceFlags() []string {
	return []string{"strict", "strict-vars", "max-parallel", "timeout", "grace", "max-step-log", "env", "runner", "pull", "in-place",
		"tracked-only", "no-ignored", "keep-workspace", "keep-failed", "no-push", "cache-size", "project-id", "context",
		"namespace", "shim-image",
		"image-pull-policy", "pull-deadline", "service-accounts"}
}

// choicePaths lists those that name files.
func choicePaths() []string {
	return []string{"secrets", "certificates", "cache-dir", "kubeconfig", "cluster"}
}

// keptFlags returns the flags that were given and that a rerun gives again, as --name=value, with full paths.
func keptFlags(a *cmdline.App, set *pflag.FlagSet) (kept []string) {
	set.Visit(func(flag *pflag.Flag) {
		path := slices.Contains(choicePaths(), flag.Name)
		if !path && !slices.Contains(choiceFlags(), flag.Name) {
			return
		}
		values := []string{flag.Value.String()}
		if list, ok := flag.Value.(pflag.SliceValue); ok {
			values = list.GetSlice()
		}
		for _, value := range values {
			cluster, file, named := strings.Cut(value, "=")
			switch {
			case path && flag.Name == "cluster" && named:
				value = cluster + "=" + a.Path(file) // with #CONTEXT at its end
			case path:
				value = a.Path(value)
			}
			kept = append(kept, "--"+flag.Name+"="+value)
		}
	})
	return kept
}
