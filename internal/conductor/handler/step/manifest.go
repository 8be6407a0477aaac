package step

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/waybill-dev/waybill/internal/pipeline"
)

// manifest is every entry of a release, folders before their content.
type manifest []entry

// Bounds of an archive's content. Its list is in memory, and an artifact may be much smaller than either.
const (
	maxEntries  = 1_000_000
	maxNames    = 256 << 20 // bytes of all paths and targets of links
	maxUnpacked = 1 << 40   // bytes of all files
)

// room holds the remaining bounds of a release.
type room struct{ entries, names, bytes int64 }

// take counts an entry, and the content of a file as its archive states it.
func (r *room) take(e entry) error {
	r.entries, r.names = r.entries-1, r.names-int64(len(e.path)+len(e.target))
	switch {
	case r.entries < 0:
		return fmt.Errorf("the archive has more than %d entries", maxEntries)
	case r.names < 0:
		return fmt.Errorf("the names in the archive have more than %d bytes", maxNames)
	case e.size < 0 || e.size > r.bytes:
		return fmt.Errorf("entry %q: the archive unpacks to more than %d bytes", e.path, maxUnpacked)
	}
	r.bytes -= e.size
	return nil
}

// manifestOf reads an archive through and lists the entries of its release.
func manifestOf(ctx context.Context, a *archive) (manifest, error) {
	entries, left := map[string]entry{}, &room{maxEntries, maxNames, maxUnpacked}
	err := a.visit(ctx, func(e entry, content io.Reader) error {
		if err := left.take(e); err != nil {
			return err
		}
		if e.isFile() {
			if err := fill(&e, content, entries); err != nil {
				return err
			}
		}
		if former, twice := entries[e.path]; twice && (!former.isFolder() || !e.isFolder()) {
			return fmt.Errorf("entry %q is in the archive twice", e.path)
		}
		entries[e.path] = e
		return nil
	})
	if err != nil {
		return nil, err
	}
	if len(entries) == 0 {
		return nil, fmt.Errorf("the archive is empty")
	}
	m, err := complete(ctx, entries, left)
	if err != nil {
		return nil, err
	}
	return m, checkLinks(ctx, m)
}

// fill sets the size and digest of a file: of its content, or of the file that it is a hard link
// to.
func fill(e *entry, content io.Reader, entries map[string]entry) error {
	if e.source != "" {
		source, ok := entries[e.source]
		if !ok || !source.isFile() {
			return fmt.Errorf("entry %q is a hard link to %q, which is not an earlier file", e.path, e.source)
		}
		e.kind, e.size, e.digest = source.kind, source.size, source.digest
		return nil
	}
	sum := sha256.New()
	n, err := io.Copy(sum, content)
	if err != nil {
		return fmt.Errorf("unpack %s: %w", e.path, err)
	}
	e.size, e.digest = n, hex.EncodeToString(sum.Sum(nil))
	return nil
}

// complete adds the folders that the archive leaves out, and sorts.
func complete(ctx context.Context, entries map[string]entry, left *room) (manifest, error) {
	m := slices.Collect(maps.Values(entries))
	for _, e := range m {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		for dir := range foldersAbove(e.path) {
			above, there := entries[dir]
			if there && !above.isFolder() {
				return nil, fmt.Errorf("entry %q is below %q, which is not a folder", e.path, dir)
			}
			if there {
				break // the folders above it are its own matter, or were added with it
			}
			folder := entry{kind: kindFolder, path: dir}
			if err := left.take(folder); err != nil {
				return nil, err
			}
			entries[dir] = folder
			m = append(m, folder)
		}
	}
	slices.SortFunc(m, func(a, b entry) int { return cmp.Compare(a.path, b.path) })
	return m, nil
}

// String returns the form that the host program reads: KIND SIZE DIGEST PATH [TARGET], tabs
// between.
func (m manifest) String() string {
	var b strings.Builder
	for _, e := range m {
		fmt.Fprintf(&b, "%c\t%d\t%s\t%s", e.kind, e.size, cmp.Or(e.digest, "-"), e.path)
		if e.kind == kindLink {
			b.WriteString("\t" + e.target)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// size returns the bytes of all files.
func (m manifest) size() int64 {
	var total int64
	for _, e := range m {
		total += e.size
	}
	return total
}

// content returns the name under which the host stores a file's content: hard links share a mode, so each kind has its own.
func (e entry) content() string {
	if e.kind == kindFile {
		return e.digest
	}
	return e.digest + string(e.kind)
}

// byPath returns the entries by their paths.
func (m manifest) byPath() map[string]entry {
	known := make(map[string]entry, len(m))
	for _, e := range m {
		known[e.path] = e
	}
	return known
}

// starts returns an error if the program of a service is in the manifest and cannot be started. Of a program that is elsewhere, behind a
// link, or made by an own step, it knows nothing.
func (m manifest) starts(s *pipeline.Service) error {
	if !s.Supervised() || len(s.Exec) == 0 || path.IsAbs(s.Exec[0]) || !strings.Contains(s.Exec[0], "/") {
		return nil
	}
	at := slices.IndexFunc(m, func(e entry) bool { return e.path == path.Clean(s.Exec[0]) })
	switch {
	case at < 0, m[at].kind == kindLink, m[at].kind == kindExecutable, m[at].kind == kindPrivateExecutable:
		return nil
	case m[at].isFolder():
		return fmt.Errorf("%s, which service.exec starts, is a folder", s.Exec[0])
	}
	return fmt.Errorf("%s, which service.exec starts, is not executable: chmod +x it before it is packed", s.Exec[0])
}
