package step

import (
	"archive/tar"
	"archive/zip"
	"compress/bzip2"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"math"
	"os"
	"path"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/klauspost/compress/zstd"

	"github.com/waybill-dev/waybill/internal/pipeline"
)

// Kinds of entries, as the host program names them. A file that was not for others in the archive is not for others
// in a release.
const (
	kindFile              = 'f'
	kindExecutable        = 'x'
	kindPrivateFile       = 'p'
	kindPrivateExecutable = 'q'
	kindFolder            = 'd'
	kindPrivateFolder     = 'r'
	kindLink              = 'l'
)

// kindOfFile returns the kind of a file with a mode. Its owner's bits decide whether it is executable.
func kindOfFile(mode fs.FileMode) byte {
	executable, public := mode&0o100 != 0, mode&0o004 != 0
	switch {
	case executable && public:
		return kindExecutable
	case executable:
		return kindPrivateExecutable
	case public:
		return kindFile
	}
	return kindPrivateFile
}

// kindOfFolder returns the kind of a folder with a mode. Others need its bit to enter it.
func kindOfFolder(mode fs.FileMode) byte {
	if mode&0o001 == 0 {
		return kindPrivateFolder
	}
	return kindFolder
}

// entry is one thing in an archive, and later in a release.
type entry struct {
	kind   byte
	path   string // clean, relative, slashes
	target string // target of a link
	source string // source of a hard link: the path whose content it has
	size   int64  // bytes
	digest string // SHA-256 of a file, 64 hex digits
}

func (e entry) isFile() bool {
	return e.kind == kindFile || e.kind == kindExecutable || e.kind == kindPrivateFile || e.kind == kindPrivateExecutable
}

func (e entry) isFolder() bool { return e.kind == kindFolder || e.kind == kindPrivateFolder }

// permissions returns the mode that an entry has on a host.
func (e entry) permissions() int64 {
	switch e.kind {
	case kindFile:
		return 0o444
	case kindExecutable:
		return 0o555
	case kindPrivateFile:
		return 0o400
	case kindPrivateExecutable:
		return 0o500
	case kindPrivateFolder:
		return 0o700
	}
	return 0o755
}

// archive is an artifact's file and how to unpack it.
type archive struct {
	file *os.File
	name string // as the build named it; its ending determines the format
}

// visit calls see for each entry in the archive's order. content is of a file, and valid during the
// call only. An archive of a few hundred bytes can unpack to exabytes, so the reading ends with ctx.
func (a *archive) visit(ctx context.Context, see func(e entry, content io.Reader) error) error {
	see = untilEnd(ctx, see)
	if _, err := a.file.Seek(0, io.SeekStart); err != nil {
		return err
	}
	name := strings.ToLower(a.name)
	switch {
	case strings.HasSuffix(name, ".tar"):
		return visitTar(a.file, see)
	case strings.HasSuffix(name, ".tar.gz"), strings.HasSuffix(name, ".tgz"):
		unpacked, err := gzip.NewReader(a.file)
		if err != nil {
			return fmt.Errorf("unpack %s: %w", a.name, err)
		}
		return visitTar(unpacked, see)
	case strings.HasSuffix(name, ".tar.zst"), strings.HasSuffix(name, ".tzst"):
		// as much memory as the program zstd takes
		unpacked, err := zstd.NewReader(a.file, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(128<<20))
		if err != nil {
			return fmt.Errorf("unpack %s: %w", a.name, err)
		}
		defer unpacked.Close()
		return visitTar(unpacked, see)
	case strings.HasSuffix(name, ".tar.bz2"), strings.HasSuffix(name, ".tbz2"), strings.HasSuffix(name, ".tbz"):
		return visitTar(bzip2.NewReader(a.file), see)
	case strings.HasSuffix(name, ".zip"):
		return a.visitZip(see)
	}
	if err := pipeline.CheckArtifactName(path.Base(a.name)); err != nil {
		return err
	}
	return a.visitOnly(see)
}

// visitOnly visits an artifact that is not an archive: the release's only file. It may be a
// program, so it is executable.
func (a *archive) visitOnly(see func(entry, io.Reader) error) error {
	info, err := a.file.Stat()
	if err != nil {
		return err
	}
	e := entry{kind: kindExecutable, path: path.Base(a.name), size: info.Size()}
	if e.path, err = cleanPath(e.path); err != nil {
		return err
	}
	return see(e, a.file)
}

// visitTar requires the blocks of zeros that end an archive: package tar takes one that was cut off
// between two entries for a whole one, and its release would lack files.
func visitTar(r io.Reader, see func(entry, io.Reader) error) error {
	counted := &counter{r: r}
	files := tar.NewReader(counted)
	for {
		counted.bytes = 0
		header, err := files.Next() // nothing of the entry before is left but its padding
		if errors.Is(err, io.EOF) && counted.bytes < tarBlock {
			return errors.New("the archive is cut off, its end is missing: build it again")
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("unpack the archive: %w", err)
		}
		e, keep, err := tarEntry(header)
		if err != nil {
			return err
		}
		if !keep {
			continue
		}
		if err := see(e, files); err != nil {
			return err
		}
	}
}

// untilEnd returns see with contents whose reading ends with ctx. The part of a content that see leaves is read too,
// since an archive that was cut off is noticed there.
func untilEnd(ctx context.Context, see func(entry, io.Reader) error) func(entry, io.Reader) error {
	return func(e entry, content io.Reader) error {
		bounded := reads(func(p []byte) (int, error) {
			if ctx.Err() != nil {
				return 0, context.Cause(ctx)
			}
			return content.Read(p)
		})
		if err := see(e, bounded); err != nil {
			return err
		}
		if _, err := io.Copy(io.Discard, bounded); err != nil {
			return fmt.Errorf("unpack the archive: %w", err)
		}
		return nil
	}
}

// reads is a function that reads.
type reads func(p []byte) (int, error)

func (r reads) Read(p []byte) (int, error) { return r(p) }

// tarBlock is the size in bytes of a tar archive's blocks.
const tarBlock = 512

// counter counts the bytes that are read through it.
type counter struct {
	r     io.Reader
	bytes int64
}

func (c *counter) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.bytes += int64(n)
	return n, err
}

func tarEntry(h *tar.Header) (e entry, keep bool, err error) {
	if h.Typeflag == tar.TypeXGlobalHeader {
		return e, false, nil
	}
	e = entry{kind: kindOfFile(fs.FileMode(h.Mode)), size: h.Size}
	if e.path, err = cleanPath(h.Name); err != nil || e.path == "." {
		return e, false, err
	}
	switch h.Typeflag {
	case tar.TypeReg, tar.TypeCont, tar.TypeGNUSparse: // whose holes package tar fills
	case tar.TypeLink:
		e.source, err = cleanPath(h.Linkname)
	case tar.TypeDir:
		e.kind, e.size = kindOfFolder(fs.FileMode(h.Mode)), 0
	case tar.TypeSymlink:
		e.kind, e.target, e.size = kindLink, h.Linkname, 0
	default:
		err = fmt.Errorf("entry %q is neither file, folder nor link", h.Name)
	}
	return e, true, err
}

func (a *archive) visitZip(see func(entry, io.Reader) error) error {
	info, err := a.file.Stat()
	if err != nil {
		return err
	}
	list := &listed{file: a.file, left: maxListed}
	files, err := zip.NewReader(list, info.Size())
	list.left = math.MaxInt64
	if err != nil {
		return fmt.Errorf("unpack %s: %w", a.name, err)
	}
	for _, f := range files.File {
		if err := visitZipped(f, see); err != nil {
			return err
		}
	}
	return nil
}

// maxListed bounds the bytes that are read for the list of files at the end of a zip. Package zip makes several times
// as many of it.
const maxListed = 64 << 20

// listed is a zip of which at most left bytes are read.
type listed struct {
	file io.ReaderAt
	left int64
}

func (l *listed) ReadAt(p []byte, at int64) (int, error) {
	if l.left -= int64(len(p)); l.left < 0 {
		return 0, fmt.Errorf("the list of its files has more than %d bytes", maxListed)
	}
	return l.file.ReadAt(p, at)
}

func visitZipped(f *zip.File, see func(entry, io.Reader) error) error {
	mode := f.Mode()
	if unset := fs.FileMode(0o755); mode.Perm() == 0 { // the zip was made without modes
		mode |= unset
	}
	e := entry{kind: kindOfFile(mode), size: int64(f.UncompressedSize64)}
	var err error
	if e.path, err = cleanPath(f.Name); err != nil || e.path == "." {
		return err
	}
	content, err := f.Open()
	if err != nil {
		return fmt.Errorf("unpack %s: %w", f.Name, err)
	}
	defer content.Close()
	switch {
	case mode.IsDir():
		e.kind, e.size = kindOfFolder(mode), 0
	case mode&fs.ModeSymlink != 0:
		target, err := io.ReadAll(io.LimitReader(content, maxPath+1))
		if err != nil {
			return fmt.Errorf("unpack %s: %w", f.Name, err)
		}
		e.kind, e.target, e.size = kindLink, string(target), 0
	case !mode.IsRegular():
		return fmt.Errorf("entry %q is neither file, folder nor link", f.Name)
	}
	return see(e, content)
}

// Lengths in bytes of the longest name and the longest path that a host takes.
const (
	maxName = 255
	maxPath = 4096
)

// cleanPath returns the relative path of an entry, or of the file that a hard link names. It refuses one that leaves
// the root, or that no host can store. A refused name is judged clean: ".//b" is "b", and without its "./" it would
// be "/b".
func cleanPath(name string) (string, error) {
	clean := path.Clean(name)
	if name == "" || path.IsAbs(clean) || clean == ".." || strings.HasPrefix(clean, "../") {
		return "", fmt.Errorf("entry %q leaves the release", name)
	}
	if fault := faultOf(clean); fault != "" {
		return "", fmt.Errorf("entry %q: its name %s", name, fault)
	}
	return clean, nil
}

// foldersAbove yields the folders that a clean relative path is in, the nearest first. Each is shorter than the one before, so
// it ends for every text.
func foldersAbove(name string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for end := strings.LastIndexByte(name, '/'); end > 0; end = strings.LastIndexByte(name[:end], '/') {
			if !yield(name[:end]) {
				return
			}
		}
	}
}

// faultOf returns why a host cannot store a path; "" if it can.
func faultOf(text string) string {
	switch {
	case !utf8.ValidString(text):
		return "is not UTF-8"
	case strings.ContainsFunc(text, unicode.IsControl):
		return "has a control character"
	case len(text) > maxPath:
		return fmt.Sprintf("is longer than %d bytes", maxPath)
	case slices.ContainsFunc(strings.Split(text, "/"), func(name string) bool { return len(name) > maxName }):
		return fmt.Sprintf("has a part of more than %d bytes", maxName)
	}
	return ""
}
