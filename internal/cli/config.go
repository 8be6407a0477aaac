package cli

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/waybill-dev/waybill/internal/config"
	"github.com/waybill-dev/waybill/internal/fault"
)

// config reads --config, WAYBILL_CONFIG, or the home's server.yaml when it is there, then puts --store over it. source
// is what the file says; nil: there is none.
func (a *app) config(h home) (cfg config.Config, source []byte, err error) {
	path, required := a.configPath(h)
	cfg = config.Default()
	if h.found {
		if err := a.trust(filepath.Join(filepath.Dir(h.dir), projectFile), h.dir); err != nil {
			return cfg, nil, err
		}
		if !required {
			if err := a.trust(path); err != nil {
				return cfg, nil, err
			}
		}
	}
	source, err = os.ReadFile(path)
	absent := errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)
	switch {
	case err != nil && (required || !absent):
		return cfg, nil, fault.New(fault.Invalid, "read the configuration %s: %w", a.shorten(path), plain(err))
	case err != nil:
		source = nil
	default:
		if cfg, err = config.Read(path, source); err != nil {
			return cfg, nil, err
		}
	}
	return cfg, source, a.override(&cfg)
}

// override puts what flags say over what the file says.
func (a *app) override(cfg *config.Config) error {
	if a.flags.store != "" {
		cfg.Ledger.URL = a.flags.store
	}
	return checkStore(cfg.Ledger.URL)
}

// configPath is where the configuration is read from; required is false for the home's, which need not be there.
func (a *app) configPath(h home) (path string, required bool) {
	for _, named := range []string{a.flags.config, a.environment("WAYBILL_CONFIG")} {
		if named != "" {
			return a.path(named), true
		}
	}
	return a.path(h.file("server.yaml")), false
}

// isPostgres reports whether a ledger URL is one of PostgreSQL.
func isPostgres(url string) bool {
	return strings.HasPrefix(url, "postgres://") || strings.HasPrefix(url, "postgresql://")
}

// checkStore refuses a ledger URL of a database that Waybill does not know.
func checkStore(url string) error {
	if isPostgres(url) || !strings.Contains(url, "://") {
		return nil
	}
	return fault.New(fault.Invalid, "the store %q is not known", url).
		WithHint("postgres://user@host/database; without --store the log is waybill.db in the home")
}
