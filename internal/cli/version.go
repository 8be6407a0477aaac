package cli

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/waybill-dev/waybill/internal/cli/cmdline"
)

// versionDocument is `waybill version -o json`.
type versionDocument struct {
	Version  string `json:"version"`
	Commit   string `json:"commit,omitempty"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

func versionCommand(a *cmdline.App) *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "Print the version of Waybill",
		Example: cmdline.Examples("waybill version -o json"),
		Args:    cmdline.Arguments(0, 0),
		RunE: func(*cobra.Command, []string) error {
			v := version()
			if a.JSON() {
				return a.Printer().Document(v)
			}
			_, err := fmt.Fprintf(a.Out, "waybill %s (%s, %s)\n", v.Version, v.Go, v.Platform)
			return err
		},
	}
}

// version returns the facts that the build recorded about itself.
func version() versionDocument {
	v := versionDocument{Version: "development", Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return v
	}
	if info.Main.Version != "" && info.Main.Version != "(devel)" {
		v.Version = info.Main.Version
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			v.Commit = s.Value
		}
	}
	return v
}
