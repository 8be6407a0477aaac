package results

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/waybill-dev/waybill/internal/file"
)

// Root is the folder of the builds that were run by hand, one folder by number each.
type Root struct{ dir string }

// Temporary makes this user's folder below the system's temporary one. Where another user was
// first, or where the system's folder lets users rename each other's files, it is one in the user's
// own cache: no other place in a shared folder has a name that others can foresee.
func Temporary() (string, error) {
	shared := filepath.Join(os.TempDir(), "iver-wharf")
	sharedErr := errors.Join(sticky(os.TempDir()), ownFolder(shared))
	if sharedErr == nil {
		return shared, nil
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", errors.Join(sharedErr, err)
	}
	own := filepath.Join(cache, "iver-wharf")
	return own, ownFolder(own)
}

// sticky returns an error unless a folder keeps its users from renaming each other's files.
func sticky(dir string) error {
	info, err := os.Stat(dir)
	if err != nil {
		return err
	}
	if info.Mode().Perm()&0o022 != 0 && info.Mode()&os.ModeSticky == 0 {
		return fmt.Errorf("users can rename each other's files in %s", dir)
	}
	return nil
}

// Default returns this user's root below Temporary.
func Default() (Root, error) {
	dir, err := Temporary()
	if err != nil {
		return Root{}, err
	}
	root := Root{filepath.Join(dir, "build")}
	return root, ownFolder(root.dir)
}

// RootAt returns a root in a folder of the caller's.
func RootAt(dir string) Root { return Root{dir} }

// Dir returns the folder of a build.
func (r Root) Dir(id string) string { return filepath.Join(r.dir, id) }

// counterFile has the last number that was given.
const counterFile = "last"

// NextID counts one up in a locked file, so that two builds never share a number.
func (r Root) NextID() (string, error) {
	f, last, err := r.counter()
	if err != nil {
		return "", err
	}
	defer f.Close()
	for _, id := range r.IDs() {
		if n, err := strconv.Atoi(id); err == nil {
			last = max(last, n)
		}
	}
	id := strconv.Itoa(last + 1)
	if _, err := f.WriteAt([]byte(id+"\n"), 0); err != nil {
		return "", fmt.Errorf("number a build: %w", err)
	}
	return id, nil
}

// Gone reports whether a build has had the id, a number, and has no results any more.
func (r Root) Gone(id string) bool {
	n, err := strconv.Atoi(id)
	if err != nil || n < 1 || strconv.Itoa(n) != id {
		return false
	}
	text, _ := file.Read(filepath.Join(r.dir, counterFile), 32) // without it no number was given
	last, err := strconv.Atoi(strings.TrimSpace(string(text)))
	_, statErr := os.Lstat(r.Dir(id))
	return err == nil && n <= last && errors.Is(statErr, fs.ErrNotExist)
}

// GiveBack counts one down again, for a build that did not begin after all, unless another has a number since.
func (r Root) GiveBack(id string) error {
	f, last, err := r.counter()
	if err != nil {
		return err
	}
	defer f.Close()
	if strconv.Itoa(last) != id || last < 1 {
		return nil
	}
	if err := f.Truncate(0); err != nil {
		return fmt.Errorf("number a build: %w", err)
	}
	if _, err := f.WriteAt([]byte(strconv.Itoa(last-1)+"\n"), 0); err != nil {
		return fmt.Errorf("number a build: %w", err)
	}
	return nil
}

// counter opens and locks the file that has the last number, until it is closed.
func (r Root) counter() (f *os.File, last int, err error) {
	if err := os.MkdirAll(r.dir, 0o700); err != nil {
		return nil, 0, fmt.Errorf("number a build: %w", err)
	}
	if f, err = os.OpenFile(filepath.Join(r.dir, counterFile), os.O_RDWR|os.O_CREATE, 0o600); err != nil {
		return nil, 0, fmt.Errorf("number a build: %w", err)
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); err != nil {
		return nil, 0, errors.Join(fmt.Errorf("number a build: %w", err), f.Close())
	}
	text := make([]byte, 32)
	n, _ := f.ReadAt(text, 0) // empty at first
	if last, err = strconv.Atoi(strings.TrimSpace(string(text[:n]))); err != nil {
		last = 0
	}
	return f, last, nil
}

// Listed is a build that has results, and when its build.json was written.
type Listed struct {
	ID string
	At time.Time
}

// List lists the builds that have results and whose ids begin with prefix, newest first, then by id.
func (r Root) List(prefix string) []Listed {
	entries, err := os.ReadDir(r.dir)
	if err != nil {
		return nil
	}
	var builds []Listed
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), prefix) {
			continue
		}
		if info, err := os.Stat(filepath.Join(r.dir, e.Name(), buildFile)); err == nil {
			builds = append(builds, Listed{e.Name(), info.ModTime()})
		}
	}
	slices.SortFunc(builds, func(a, b Listed) int { return cmp.Or(b.At.Compare(a.At), cmp.Compare(a.ID, b.ID)) })
	return builds
}

// IDs lists the ids of the builds that have results, newest first.
func (r Root) IDs() []string {
	builds := r.List("")
	ids := make([]string, len(builds))
	for i, b := range builds {
		ids[i] = b.ID
	}
	return ids
}

// How many results stay: a build goes when it is neither among the last nor young.
const (
	keepBuilds = 20
	keepFor    = 7 * 24 * time.Hour
)

// Prune removes old results. Those of a living worker stay. What a crash leaves half removed is found again by its build.json, which goes
// last.
func (r Root) Prune(now time.Time) error {
	var errs []error
	for i, id := range r.IDs() {
		if i < keepBuilds {
			continue
		}
		reader := &Reader{r.Dir(id)}
		info, err := os.Stat(filepath.Join(reader.dir, buildFile))
		if err != nil || now.Sub(info.ModTime()) <= keepFor || reader.Alive() {
			continue
		}
		if err = reader.Remove(); err == nil {
			err = os.RemoveAll(reader.dir) // with what else is in it
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}
