package cli

import (
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"os/user"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/waybill-dev/waybill/internal/config"
	"github.com/waybill-dev/waybill/internal/fault"
)

// place is where a command line looks for its log: a folder, the flags, and the environment. Nothing is open yet.
type place struct {
	dir         string              // the working directory
	environment func(string) string // such as os.Getenv
	flags       placeFlags
	log         *slog.Logger // of a process that serves; nil: nothing is logged
	version     string       // of this program, as instances report it
}

// placeFlags are the flags that name a log.
type placeFlags struct {
	home   string // the folder that holds the embedded log; "": found
	config string // server.yaml; "": the home's
	store  string // the ledger's URL; "": the configuration's, else waybill.db in the home
	server string // URL of a running `waybill up` or `waybill serve api`; "": work on the log itself
}

// path returns a path that a person wrote as an absolute one, counting from the working directory.
func (p place) path(name string) string {
	if filepath.IsAbs(name) {
		return filepath.Clean(name)
	}
	return filepath.Join(p.dir, name)
}

// shorten returns a path as seen from the working directory when that is shorter.
func (p place) shorten(path string) string {
	if !filepath.IsAbs(path) {
		return path
	}
	relative, err := filepath.Rel(p.dir, path)
	if err != nil || len(relative) > len(path) {
		return path
	}
	return relative
}

// user returns the name of the person who acts, for the log.
func (p place) user() string {
	for _, name := range []string{"USER", "LOGNAME"} {
		if value := p.environment(name); value != "" {
			return value
		}
	}
	if account, err := user.Current(); err == nil {
		return account.Username
	}
	return "unknown"
}

// projectDir returns the folder of the waybill.yaml found from dir upwards, or dir itself.
func (p place) projectDir(dir string) string {
	if found, ok := findUpwards(dir, projectFile); ok {
		return filepath.Dir(found)
	}
	return dir
}

// config reads --config, WAYBILL_CONFIG, or the home's server.yaml when it is there, then puts --store over it. source
// is what the file says; nil: there is none.
func (p place) config(h home) (cfg config.Config, source []byte, err error) {
	path, required := p.configPath(h)
	cfg = config.Default()
	if h.found {
		if err := p.trust(filepath.Join(filepath.Dir(h.dir), projectFile), h.dir); err != nil {
			return cfg, nil, err
		}
		if !required {
			if err := p.trust(path); err != nil {
				return cfg, nil, err
			}
		}
	}
	source, err = os.ReadFile(path)
	absent := errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)
	switch {
	case err != nil && (required || !absent):
		return cfg, nil, fault.New(fault.Invalid, "read the configuration %s: %w", p.shorten(path), plain(err))
	case err != nil:
		source = nil
	default:
		if cfg, err = config.Read(path, source); err != nil {
			return cfg, nil, err
		}
	}
	return cfg, source, p.override(&cfg)
}

// override puts what flags say over what the file says.
func (p place) override(cfg *config.Config) error {
	if p.flags.store != "" {
		cfg.Ledger.URL = p.flags.store
	}
	return checkStore(cfg.Ledger.URL)
}

// configPath is where the configuration is read from; required is false for the home's, which need not be there.
func (p place) configPath(h home) (path string, required bool) {
	for _, named := range []string{p.flags.config, p.environment("WAYBILL_CONFIG")} {
		if named != "" {
			return p.path(named), true
		}
	}
	return p.path(h.file("server.yaml")), false
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
