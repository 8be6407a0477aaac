package cli

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/lifecycle"
)

// projectFile describes a project's pipeline.
const projectFile = "waybill.yaml"

// homeName is the home's folder beside waybill.yaml.
const homeName = ".waybill"

// homeIgnore keeps the home out of every commit, but for the two files that people write.
const homeIgnore = "*\n!known_hosts\n!server.yaml\n"

// home is the folder that holds the embedded log and all that goes with it.
type home struct {
	dir   string
	found bool // it was looked for, and not named
}

func (h home) file(name string) string { return filepath.Join(h.dir, name) }

func (h home) database() string { return h.file("waybill.db") }
func (h home) token() string    { return h.file("token") }
func (h home) address() string  { return h.file("address") } // of the server that runs on it
func (h home) blobs() string    { return h.file("blobs") }
func (h home) builds() string   { return h.file("builds") }

// homeOf finds the home for a folder: --home, WAYBILL_HOME, else .waybill beside the waybill.yaml found from there
// upwards, else .waybill in the folder itself. It creates nothing.
func (p place) homeOf(dir string) home {
	if p.flags.home != "" {
		return home{dir: p.path(p.flags.home)}
	}
	if named := p.environment("WAYBILL_HOME"); named != "" {
		return home{dir: p.path(named)}
	}
	if project, ok := findUpwards(dir, projectFile); ok {
		return home{filepath.Join(filepath.Dir(project), homeName), true}
	}
	return home{filepath.Join(dir, homeName), true}
}

// findUpwards looks for a file in dir and the folders above it.
func findUpwards(dir, name string) (path string, ok bool) {
	for {
		path := filepath.Join(dir, name)
		if info, err := os.Stat(path); err == nil && !info.IsDir() {
			return path, true
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", false
		}
		dir = parent
	}
}

// create makes the home when it is not there: for its owner alone, and ignored by git.
func (h home) create() error {
	if err := os.MkdirAll(h.dir, 0o700); err != nil {
		return h.unusable(err)
	}
	ignore := h.file(".gitignore")
	if _, err := os.Stat(ignore); err == nil {
		return h.writable()
	}
	if err := os.WriteFile(ignore, []byte(homeIgnore), 0o600); err != nil {
		return h.unusable(err)
	}
	return nil
}

// writable finds out before anything is begun whether files can be made in the home.
func (h home) writable() error {
	probe, err := os.CreateTemp(h.dir, ".probe-*")
	if err != nil {
		return h.unusable(err)
	}
	return errors.Join(probe.Close(), os.Remove(probe.Name()))
}

// identity returns an id that stays with the home, wherever it is moved to. The first call makes it; of processes that do
// so at the same moment one is first, and its id counts.
func (h home) identity() (string, error) {
	text, err := os.ReadFile(h.file("id"))
	if !errors.Is(err, fs.ErrNotExist) {
		return strings.TrimSpace(string(text)), err
	}
	file, err := os.CreateTemp(h.dir, ".id-*")
	if err != nil {
		return "", h.unusable(err)
	}
	defer os.Remove(file.Name())
	_, writeErr := fmt.Fprintln(file, rand.Text())
	if err := errors.Join(writeErr, file.Sync(), file.Close()); err != nil {
		return "", h.unusable(err)
	}
	if err := os.Link(file.Name(), h.file("id")); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", h.unusable(err)
	}
	text, err = os.ReadFile(h.file("id"))
	return strings.TrimSpace(string(text)), err
}

func (h home) unusable(err error) error {
	if errors.Is(err, fs.ErrPermission) {
		return fault.New(fault.Unavailable, "the home %s cannot be written: %w", h.dir, plain(err)).
			WithHint("give this account the folder, or name another one with --home")
	}
	return fault.New(fault.Unavailable, "use the home %s: %w", h.dir, plain(err)).WithHint("name another folder with --home")
}

// plain is what is wrong with a file, without the operation and the path.
func plain(err error) error {
	if at, ok := errors.AsType[*fs.PathError](err); ok {
		return at.Err
	}
	return err
}

// exists reports whether there is a log in the home.
func (h home) exists() bool {
	_, err := os.Stat(h.database())
	return err == nil
}

// held reports whether a process runs the embedded log.
func (h home) held() bool { return lifecycle.IsHeld(h.dir) }

// needLog is the error when somebody asks about a log that is not there.
func needLog(path string) error {
	if _, err := os.Stat(path); err == nil || !errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return fault.New(fault.Unavailable, "there is no log %s: nothing has been shipped here yet", path).
		WithHint("waybill ship, or name another log with --home, --store or --server")
}
