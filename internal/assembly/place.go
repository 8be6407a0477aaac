package assembly

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os/user"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/waybill-dev/waybill/internal/config"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/file"
)

// Place holds the sources from which a command line finds its log: a folder, the flags, and the environment. Nothing
// is open yet.
type Place struct {
	Dir         string              // the working directory
	Environment func(string) string // such as os.Getenv
	Flags       Flags
	Log         *slog.Logger // log of a serving process; nil: nothing is logged
	// Ask prompts a person to accept a home that may have come from others; nil: no one answers, and it is refused.
	Ask     func(ctx context.Context, question string) bool
	Version string // version of this program, as instances report it
}

// Flags are the flags that name a log.
type Flags struct {
	Home     string // the folder that holds the embedded log; "": found
	Config   string // server.yaml; "": the home's
	Store    string // the ledger's URL; "": the configuration's, else waybill.db in the home
	SSHDials int    // connections to ssh hosts that are being made at a time; 0: the pool's default
	Server   string // URL of a running `waybill up` or `waybill serve api`; "": work on the log itself
	// LogRetention is the retention of builds' results in the database, see config.ParseRetention; "": as configured.
	LogRetention string
}

// Path returns a path that a person wrote as an absolute path: a relative one begins at the working directory.
func (p Place) Path(name string) string {
	if filepath.IsAbs(name) {
		return filepath.Clean(name)
	}
	return filepath.Join(p.Dir, name)
}

// Shorten returns a path as seen from the working directory when that is shorter.
func (p Place) Shorten(path string) string {
	if !filepath.IsAbs(path) {
		return path
	}
	relative, err := filepath.Rel(p.Dir, path)
	if err != nil || len(relative) > len(path) {
		return path
	}
	return relative
}

// User returns the name of the person who acts, for the log.
func (p Place) User() string {
	for _, name := range []string{"USER", "LOGNAME"} {
		if value := p.Environment(name); value != "" {
			return value
		}
	}
	if account, err := user.Current(); err == nil {
		return account.Username
	}
	return "unknown"
}

// ProjectDir returns the folder of the waybill.yaml found from dir upwards, or dir itself.
func (p Place) ProjectDir(dir string) string {
	if found, ok := findUpwards(dir, ProjectFile); ok {
		return filepath.Dir(found)
	}
	return dir
}

// Config reads --config, WAYBILL_CONFIG, or the home's server.yaml when it is there, then puts --store over it.
// source is the content of the file; nil if there is none.
func (p Place) Config(h Home) (cfg config.Config, source []byte, err error) {
	path, required := p.ConfigPath(h)
	cfg = config.Default()
	if h.found {
		if err := p.TrustHome(h); err != nil {
			return cfg, nil, err
		}
		if !required {
			if err := p.Trust(path); err != nil {
				return cfg, nil, err
			}
		}
	}
	source, err = file.Read(path, file.Most)
	absent := errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)
	switch {
	case err != nil && (required || !absent):
		return cfg, nil, fault.New(fault.Invalid, "read the configuration %s: %w", p.Shorten(path), file.Plain(err))
	case err != nil:
		source = nil
	default:
		if cfg, err = config.Read(path, source); err != nil {
			return cfg, nil, err
		}
	}
	return cfg, source, p.override(&cfg)
}

// override puts the values of flags over those of the file.
func (p Place) override(cfg *config.Config) error {
	if p.Flags.Store != "" {
		cfg.Ledger.URL = p.Flags.Store
	}
	if text := p.Flags.LogRetention; text != "" {
		var ok bool
		if cfg.Ledger.LogRetention, ok = config.ParseRetention(text); !ok {
			return fault.New(fault.Invalid, "--log-retention %s: want at least 1d, such as 90d, or never", text)
		}
	}
	return checkStore(cfg.Ledger.URL)
}

// ConfigPath returns the path of the configuration; required is false for the home's, which need not exist.
func (p Place) ConfigPath(h Home) (path string, required bool) {
	for _, named := range []string{p.Flags.Config, p.Environment("WAYBILL_CONFIG")} {
		if named != "" {
			return p.Path(named), true
		}
	}
	return p.Path(h.file(configFile)), false
}

// isPostgres reports whether a ledger URL is one of PostgreSQL.
func isPostgres(url string) bool {
	return strings.HasPrefix(url, "postgres://") || strings.HasPrefix(url, "postgresql://")
}

// checkStore returns an error for the URL of a database that Waybill does not know.
func checkStore(url string) error {
	if isPostgres(url) || !strings.Contains(url, "://") {
		return nil
	}
	return fault.New(fault.Invalid, "the store %q is not known", url).
		WithHint("postgres://user@host/database; without --store the log is waybill.db in the home")
}
