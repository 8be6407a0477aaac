package assembly

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/file"
	"github.com/waybill-dev/waybill/internal/lifecycle"
	"github.com/waybill-dev/waybill/internal/service"
)

// ProjectFile describes a project's pipeline.
const ProjectFile = "waybill.yaml"

// HomeName is the home's folder beside waybill.yaml.
const HomeName = ".waybill"

// homeIgnore keeps the home out of every commit, except the two files that people write.
const homeIgnore = "*\n!known_hosts\n!server.yaml\n"

// Home is the folder that holds the embedded log and all that goes with it.
type Home struct {
	Dir   string
	found bool // it was searched for, and not named
}

func (h Home) file(name string) string { return filepath.Join(h.Dir, name) }

func (h Home) database() string { return h.file("waybill.db") }
func (h Home) Token() string    { return h.file("token") }
func (h Home) address() string  { return h.file("address") } // file with the address of the server that runs on it
func (h Home) blobs() string    { return h.file("blobs") }
func (h Home) mirrors() string  { return h.file("mirrors") } // folder of the copies of Git repositories; it may be deleted
func (h Home) Builds() string   { return h.file("builds") }

// HomeOf finds the home for a folder: --home, WAYBILL_HOME, else .waybill beside the waybill.yaml found from there
// upwards, else .waybill in the folder itself. It creates nothing.
func (p Place) HomeOf(dir string) Home {
	if p.Flags.Home != "" {
		return Home{Dir: p.Path(p.Flags.Home)}
	}
	if named := p.Environment("WAYBILL_HOME"); named != "" {
		return Home{Dir: p.Path(named)}
	}
	if project, ok := findUpwards(dir, ProjectFile); ok {
		return Home{filepath.Join(filepath.Dir(project), HomeName), true}
	}
	return Home{filepath.Join(dir, HomeName), true}
}

// findUpwards searches for a file in dir and the folders above it.
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
func (h Home) create() error {
	if err := os.MkdirAll(h.Dir, 0o700); err != nil {
		return h.unusable(err)
	}
	if _, err := os.Lstat(h.file(ignoreFile)); err == nil {
		return h.writable()
	}
	probe, err := os.CreateTemp(h.Dir, ".probe-*")
	if err != nil {
		return h.unusable(err)
	}
	defer os.Remove(probe.Name())
	_, err = probe.WriteString(homeIgnore)
	if err := errors.Join(err, probe.Close()); err != nil {
		return h.unusable(err)
	}
	if err := os.Link(probe.Name(), h.file(ignoreFile)); err != nil && !errors.Is(err, fs.ErrExist) {
		return h.unusable(err)
	}
	return nil
}

// ignored reports whether the home has the file that keeps it out of commits, as create makes it.
func (h Home) ignored() bool {
	text, err := file.ReadUnlinked(h.file(ignoreFile), mostNote)
	return err == nil && string(text) == homeIgnore
}

// writable finds out before anything is begun whether files can be made in the home.
func (h Home) writable() error {
	probe, err := os.CreateTemp(h.Dir, ".probe-*")
	if err != nil {
		return h.unusable(err)
	}
	return errors.Join(probe.Close(), os.Remove(probe.Name()))
}

const idFile = "id"

// identity returns an id that stays with the home, wherever it is moved to. The first call makes it, and calls note before any other can
// see it; of processes that do so at the same moment, the first one's id counts.
func (h Home) identity(note func(id string) error) (string, error) {
	text, err := file.ReadUnlinked(h.file(idFile), mostNote)
	if !errors.Is(err, fs.ErrNotExist) {
		return strings.TrimSpace(string(text)), err
	}
	f, err := os.CreateTemp(h.Dir, ".id-*")
	if err != nil {
		return "", h.unusable(err)
	}
	defer os.Remove(f.Name())
	id := rand.Text()
	_, writeErr := fmt.Fprintln(f, id)
	if err := errors.Join(writeErr, f.Sync(), f.Close()); err != nil {
		return "", h.unusable(err)
	}
	if err := note(id); err != nil {
		return "", err
	}
	if err := os.Link(f.Name(), h.file(idFile)); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", h.unusable(err)
	}
	text, err = file.ReadUnlinked(h.file(idFile), mostNote)
	return strings.TrimSpace(string(text)), err
}

func (h Home) unusable(err error) error {
	if errors.Is(err, fs.ErrPermission) {
		return fault.New(fault.Unavailable, "the home %s cannot be written: %w", h.Dir, file.Plain(err)).
			WithHint("give this account the folder, or name another one with --home")
	}
	if errors.Is(err, syscall.EROFS) {
		return fault.New(fault.Unavailable, "the home %s cannot be written: %w", h.Dir, file.Plain(err)).
			WithHint("mount its disk to be written, or name another folder with --home")
	}
	return fault.New(fault.Unavailable, "use the home %s: %w", h.Dir, file.Plain(err)).WithHint("name another folder with --home")
}

// exists reports whether there is a log in the home.
func (h Home) exists() bool {
	_, err := os.Stat(h.database())
	return err == nil
}

// held reports whether a process runs the embedded log.
func (h Home) held() bool { return lifecycle.IsHeld(h.Dir) }

// holder returns the process that runs the embedded log, or nil.
func (h Home) holder() *service.Holder {
	held := lifecycle.Holder(h.Dir)
	switch {
	case held == nil:
		return nil
	case held.Heard.IsZero():
		return &service.Holder{PID: held.PID}
	}
	return &service.Holder{PID: held.PID, Heard: held.Heard, LeaseEnd: held.Heard.Add(lifecycle.HomeLease)}
}

// needLog returns an error when the log does not exist: a command that reads does not create one.
func needLog(path string) error {
	if _, err := os.Stat(path); err == nil || !errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return fault.New(fault.Unavailable, "log %s not found: nothing has been shipped here yet", path).
		WithHint("waybill ship, or name another log with --home, --store or --server; " +
			"the log of Kubernetes pipelines is at the server that promotes them")
}
