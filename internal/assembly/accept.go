package assembly

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strings"

	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/file"
	"github.com/waybill-dev/waybill/internal/git"
)

// The content of a home decides where commands connect, which hosts they believe, and the work of a serving process.
// A home that was found beside a project may have come with it: by a clone, a checkout of another branch, or an
// archive. So a home that was found counts only if Waybill made it on this machine, or the user has accepted it,
// which is noted outside of it: in a file of this account whose name is a digest of the machine's id and the home's.
// Of a home that is noted, files that git tracks count only with the content that was accepted.

// sharedFiles returns the files of a home that people write, and may share by git. Everything else there is only Waybill's to write.
func sharedFiles() []string { return []string{configFile, "known_hosts", ignoreFile} }

const (
	configFile  = "server.yaml"
	ignoreFile  = ".gitignore" // with another content git may commit the token
	mostShared  = 64 << 20     // bytes of a shared file
	mostNote    = 1 << 20
	notesFolder = "waybill/homes"
)

// acceptance is the note that a home counts on this machine.
type acceptance struct {
	Home   string            `json:"home"`   // path, shown to people
	SHA256 map[string]string `json:"sha256"` // digest of each shared file when it was noted, in hex
}

// TrustHome returns an error for a found home that others may have made. On a terminal it asks first.
func (p Place) TrustHome(h Home) error {
	if !h.found {
		return nil
	}
	if err := p.TrustFound(filepath.Join(filepath.Dir(h.Dir), ProjectFile)); err != nil {
		return err
	}
	if err := p.Trust(h.Dir); err != nil {
		return err
	}
	why, err := p.notAccepted(h)
	if err != nil || why == "" {
		return err
	}
	if p.Ask != nil && p.Ask(context.Background(), why+"\nwhat is in it decides where commands connect and what they run; do you trust it?") {
		return p.Accept(h)
	}
	return fault.New(fault.Invalid, "%s: what is in it decides where commands connect and what they run", why).
		WithHint("if you trust what is in it: waybill config accept; a home that --home or WAYBILL_HOME names needs no acceptance")
}

// Accept records that the user trusts a home.
func (p Place) Accept(h Home) error {
	if err := p.Trust(h.Dir); err != nil {
		return err
	}
	switch _, err := os.Stat(h.Dir); {
	case errors.Is(err, fs.ErrNotExist):
		return fault.New(fault.Invalid, "home %s not found: there is nothing to accept", p.Shorten(h.Dir))
	case err != nil:
		return h.unusable(err)
	}
	if _, err := p.trackedShared(h); err != nil {
		return err
	}
	if err := h.create(); err != nil { // git ignores it from now on
		return err
	}
	id, err := h.identity(func(id string) error { return p.note(h, id) })
	if err != nil {
		return err
	}
	if id == "" {
		return fault.New(fault.Invalid, "%s is empty", p.Shorten(h.file(idFile))).WithHint("remove it")
	}
	return p.note(h, id)
}

// CreateHome makes the home when it is not there: for its owner alone, ignored by git, and noted as made here.
func (p Place) CreateHome(h Home) error {
	fresh := p.isFresh(h)
	if err := h.create(); err != nil || !fresh {
		return err
	}
	_, err := h.identity(func(id string) error { return p.note(h, id) })
	if !h.found && fault.Is(err, fault.Unavailable) {
		return nil // a home that is named needs no note
	}
	return err
}

// isFresh reports whether the home contains nothing that Waybill obeys.
func (p Place) isFresh(h Home) bool {
	if info, err := os.Lstat(h.Dir); err == nil && !info.IsDir() {
		return false
	}
	entries, err := os.ReadDir(h.Dir)
	if err != nil {
		return errors.Is(err, fs.ErrNotExist)
	}
	_, named := p.ConfigPath(h)
	return !slices.ContainsFunc(entries, func(e fs.DirEntry) bool {
		name := e.Name()
		return !(name == ignoreFile && h.ignored()) && !strings.HasPrefix(name, ".id-") &&
			!strings.HasPrefix(name, ".probe-") && !(named && name == configFile)
	})
}

// notAccepted returns why a home must be accepted first, or "" if it need not be.
func (p Place) notAccepted(h Home) (why string, err error) {
	if p.isFresh(h) {
		return "", nil
	}
	tracked, err := p.trackedShared(h)
	if err != nil {
		return "", err
	}
	noted, ok := p.noted(h)
	if !ok {
		return fmt.Sprintf("the home %s was not made by Waybill on this machine", p.Shorten(h.Dir)), nil
	}
	for _, name := range tracked {
		if _, err := os.Lstat(h.file(name)); errors.Is(err, fs.ErrNotExist) {
			continue // it was removed here, so nothing obeys it, and acceptance has nothing to note
		}
		sum, err := digestOf(h.file(name))
		if isNoted := err == nil && sum == noted.SHA256[name]; !isNoted {
			return fmt.Sprintf("git tracks %s, whose content has not been accepted on this machine", p.Shorten(h.file(name))), nil
		}
	}
	return "", nil
}

// trackedShared returns the files of a home that are obeyed and that git tracks, or may track if it refuses the repository. It is an error
// if git tracks others, which only Waybill writes.
func (p Place) trackedShared(h Home) (shared []string, err error) {
	if !h.found {
		return nil, nil
	}
	tracked, err := git.Open(filepath.Dir(h.Dir)).TrackedAt(context.Background(), HomeName)
	switch {
	case errors.Is(err, exec.ErrNotFound): // so nothing is checked out; the note must be there all the same
	case err != nil: // git may have brought each
		for _, name := range sharedFiles() {
			if _, err := os.Lstat(h.file(name)); err == nil {
				tracked = append(tracked, HomeName+"/"+name)
			}
		}
	}
	_, named := p.ConfigPath(h)
	for _, path := range tracked {
		name := strings.TrimPrefix(path, HomeName+"/")
		switch {
		case named && name == configFile:
		case slices.Contains(sharedFiles(), name):
			shared = append(shared, name)
		default:
			return nil, fault.New(fault.Invalid, "git tracks %s, which only Waybill may write", path).
				WithHint("git rm -r --cached %s, or name the home with --home", path)
		}
	}
	return shared, nil
}

// note records that the home with an id counts on this machine.
func (p Place) note(h Home, id string) error {
	noted := acceptance{Home: h.Dir, SHA256: map[string]string{}}
	for _, name := range sharedFiles() {
		sum, err := digestOf(h.file(name))
		if err == nil {
			noted.SHA256[name] = sum
		} else if !errors.Is(err, fs.ErrNotExist) {
			return fault.New(fault.Invalid, "read %s: %w", h.file(name), file.Plain(err))
		}
	}
	path, err := p.notePath(h, id)
	if err == nil {
		err = writeNote(path, noted)
	}
	if err != nil {
		return fault.New(fault.Unavailable, "note that the home %s is trusted: %w", h.Dir, err).
			WithHint("name the home with --home or WAYBILL_HOME, or a folder for the note with XDG_STATE_HOME")
	}
	return nil
}

func writeNote(path string, noted acceptance) error {
	text, err := json.Marshal(noted)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".new-*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // unless it has its name
	_, err = f.Write(append(text, '\n'))
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}

// noted returns this machine's note about a home.
func (p Place) noted(h Home) (noted acceptance, ok bool) {
	id, err := file.ReadUnlinked(h.file(idFile), mostNote) // a link could lead to the id of a home that counts
	if err != nil || len(strings.TrimSpace(string(id))) == 0 {
		return noted, false
	}
	path, err := p.notePath(h, strings.TrimSpace(string(id)))
	if err != nil {
		return noted, false
	}
	text, err := file.Read(path, mostNote)
	return noted, err == nil && json.Unmarshal(text, &noted) == nil
}

// notePath returns the file that notes a home. A link to a home counts only where it was accepted itself, since a clone can bring one.
func (p Place) notePath(h Home, id string) (string, error) {
	state := p.Environment("XDG_STATE_HOME")
	if !filepath.IsAbs(state) {
		home := p.Environment("HOME")
		if home == "" {
			account, err := user.Current()
			if err != nil {
				return "", err
			}
			home = account.HomeDir
		}
		if !filepath.IsAbs(home) {
			return "", errors.New("HOME is not set")
		}
		state = filepath.Join(home, ".local", "state")
	}
	machine, err := file.Read("/etc/machine-id", mostNote)
	if err != nil {
		machine = nil // the machines that lack one do not share folders of accounts
	}
	link := ""
	if info, err := os.Lstat(h.Dir); err == nil && info.Mode()&fs.ModeSymlink != 0 {
		link = h.Dir
	}
	sum := sha256.Sum256([]byte(strings.TrimSpace(string(machine)) + "\n" + id + "\n" + link))
	return filepath.Join(state, filepath.FromSlash(notesFolder), hex.EncodeToString(sum[:])), nil
}

func digestOf(path string) (string, error) {
	text, err := file.Read(path, mostShared)
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:]), err
}
