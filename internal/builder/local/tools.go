package local

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/config"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/file"
)

// maxConfiguration bounds a server.yaml, in bytes.
const maxConfiguration = 1 << 20

// buildTools returns builder.tools of the server.yaml that --config or WAYBILL_CONFIG names, else of the user's own configuration, where it
// need not be.
func (b *Builder) buildTools() (build.Tools, error) {
	path, named := b.Config, b.Config != ""
	if !named {
		own, err := os.UserConfigDir()
		if err != nil {
			return build.Tools{}, nil //nolint:nilerr // this user has none
		}
		path = filepath.Join(own, "waybill", "server.yaml")
	}
	data, err := b.ReadTrusted(path, maxConfiguration)
	switch {
	case errors.Is(err, fs.ErrNotExist) && !named:
		return build.Tools{}, nil
	case err != nil:
		return build.Tools{}, fault.New(fault.Invalid, "read the configuration %s: %w", b.Shorten(path), file.Plain(err))
	}
	c, err := config.Read(b.Shorten(path), data)
	return c.Builder.Tools, err
}
