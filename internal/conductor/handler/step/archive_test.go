package step

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/zstd"

	"github.com/waybill-dev/waybill/internal/childtest"
	"github.com/waybill-dev/waybill/internal/pipeline"
)

func tarOf(t *testing.T, headers ...tar.Header) []byte {
	t.Helper()
	var buffer bytes.Buffer
	w := tar.NewWriter(&buffer)
	for _, h := range headers {
		content := strings.Repeat("x", int(h.Size))
		if h.Mode == 0 {
			h.Mode = 0o755
			if h.Typeflag == tar.TypeReg || h.Typeflag == 0 {
				h.Mode = 0o644
			}
		}
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, content); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return buffer.Bytes()
}

func archiveOf(t *testing.T, name string, content []byte) *archive {
	t.Helper()
	path := filepath.Join(t.TempDir(), "artifact")
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := file.Close(); err != nil {
			t.Error(err)
		}
	})
	return &archive{file: file, name: name}
}

func kinds(m manifest) string {
	var b strings.Builder
	for _, e := range m {
		b.WriteString(string(e.kind) + " " + e.path + "\n")
	}
	return b.String()
}

func TestManifestOfEveryFormat(t *testing.T) {
	t.Parallel()
	plain := tarOf(t, tar.Header{Name: "./", Typeflag: tar.TypeDir, Mode: 0o755}, tar.Header{Name: "./bin/greeter", Size: 3, Mode: 0o755},
		tar.Header{Name: "readme", Size: 1, Mode: 0o644}, tar.Header{Name: "empty/", Typeflag: tar.TypeDir, Mode: 0o755},
		tar.Header{Name: "bin/link", Typeflag: tar.TypeSymlink, Linkname: "../readme"},
		tar.Header{Name: "hard", Typeflag: tar.TypeLink, Linkname: "bin/greeter"})
	var zstded bytes.Buffer
	zw, err := zstd.NewWriter(&zstded)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := zw.Write(plain); err != nil {
		t.Fatal(err)
	}
	if err := zw.Close(); err != nil {
		t.Fatal(err)
	}
	const want = "d bin\nx bin/greeter\nl bin/link\nd empty\nx hard\nf readme\n"
	for name, content := range map[string][]byte{"dist/a.tar": plain, "a.tar.zst": zstded.Bytes()} {
		m, err := manifestOf(t.Context(), archiveOf(t, name, content))
		if err != nil {
			t.Fatal(name, err)
		}
		if diff := cmp.Diff(want, kinds(m)); diff != "" {
			t.Errorf("%s (-want +got)\n%s", name, diff)
		}
		if line := strings.Split(m.String(), "\n")[2]; line != "l\t0\t-\tbin/link\t../readme" {
			t.Errorf("line %q", line)
		}
	}
	m, err := manifestOf(t.Context(), archiveOf(t, "dist/greeter", []byte("#!")))
	if err != nil || kinds(m) != "x greeter\n" {
		t.Errorf("a single file: %q, %v", kinds(m), err)
	}
}

func TestManifestOfZip(t *testing.T) {
	t.Parallel()
	var buffer bytes.Buffer
	w := zip.NewWriter(&buffer)
	for name, mode := range map[string]os.FileMode{"bin/run": 0o755, "text": 0o644, "link": os.ModeSymlink | 0o777} {
		h := &zip.FileHeader{Name: name}
		h.SetMode(mode)
		f, err := w.CreateHeader(h)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(f, "text"); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	m, err := manifestOf(t.Context(), archiveOf(t, "a.ZIP", buffer.Bytes()))
	if err != nil || kinds(m) != "d bin\nx bin/run\nl link\nf text\n" {
		t.Errorf("%q, %v", kinds(m), err)
	}
}

func TestArchivesThatLeaveTheReleaseAreRefused(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		headers []tar.Header
		want    string
	}{
		"parent":         {[]tar.Header{{Name: "../x", Size: 1}}, `entry "../x" leaves the release`},
		"deep parent":    {[]tar.Header{{Name: "a/../../x", Size: 1}}, "leaves the release"},
		"absolute":       {[]tar.Header{{Name: "/etc/x", Size: 1}}, `entry "/etc/x" leaves the release`},
		"absolute twice": {[]tar.Header{{Name: "//etc/x", Size: 1}}, "leaves the release"},
		"link": {[]tar.Header{{Name: "a/l", Typeflag: tar.TypeSymlink, Linkname: "../../x"}},
			"is a link to \"../../x\", which leaves the release"},
		"absolute link": {[]tar.Header{{Name: "l", Typeflag: tar.TypeSymlink, Linkname: "/etc"}}, "which leaves the release"},
		"below a link": {[]tar.Header{{Name: "l", Typeflag: tar.TypeSymlink, Linkname: "d"}, {Name: "l/x", Size: 1}},
			`is below "l", which is not a folder`},
		"below a file": {[]tar.Header{{Name: "f", Size: 1}, {Name: "f/x", Size: 1}}, `is below "f", which is not a folder`},
		"twice":        {[]tar.Header{{Name: "f", Size: 1}, {Name: "./f", Size: 2}}, "is in the archive twice"},
		"device":       {[]tar.Header{{Name: "d", Typeflag: tar.TypeChar}}, "is neither file, folder nor link"},
		"newline":      {[]tar.Header{{Name: "a\nb", Size: 1}}, "has a control character"},
		"tab":          {[]tar.Header{{Name: "a\tb", Size: 1}}, "has a control character"},
		"C1 control":   {[]tar.Header{{Name: "a\u0085b", Size: 1}}, "has a control character"},
		"not UTF-8":    {[]tar.Header{{Name: "a\xff", Size: 1}}, "is not UTF-8"},
		"long name":    {[]tar.Header{{Name: strings.Repeat("é", 128), Size: 1}}, "has a part of more than 255 bytes"},
		"long path":    {[]tar.Header{{Name: strings.Repeat("abc/", 1024) + "f", Size: 1}}, "is longer than 4096 bytes"},
		"link's text":  {[]tar.Header{{Name: "l", Typeflag: tar.TypeSymlink, Linkname: "a\tb"}}, "whose target has a control character"},
		"empty link":   {[]tar.Header{{Name: "l", Typeflag: tar.TypeSymlink}}, "is empty"},
		"chain of links": {[]tar.Header{{Name: "a", Typeflag: tar.TypeDir}, {Name: "a/b", Typeflag: tar.TypeSymlink, Linkname: ".."},
			{Name: "c", Typeflag: tar.TypeSymlink, Linkname: "a/b/../.."}}, `entry "c" is a link to "a/b/../..", which leaves the release`},
		"link through a link to above": {[]tar.Header{{Name: "a/b/up", Typeflag: tar.TypeSymlink, Linkname: "../.."},
			{Name: "c", Typeflag: tar.TypeSymlink, Linkname: "./a//b/up/.."}}, "leaves the release"},
		"circle": {[]tar.Header{{Name: "a", Typeflag: tar.TypeSymlink, Linkname: "b"},
			{Name: "b", Typeflag: tar.TypeSymlink, Linkname: "a"}}, "leads through more than 40 links"},
		"up from nowhere": {[]tar.Header{{Name: "d/l", Typeflag: tar.TypeSymlink, Linkname: "../data/../x"}},
			`goes up from "data", which is not a folder of the archive`},
		"hard link":          {[]tar.Header{{Name: "h", Typeflag: tar.TypeLink, Linkname: "../../etc/passwd"}}, "leaves the release"},
		"absolute hard link": {[]tar.Header{{Name: "h", Typeflag: tar.TypeLink, Linkname: "//etc/passwd"}}, "leaves the release"},
		"empty":              {nil, "the archive is empty"},
	} {
		_, err := manifestOf(t.Context(), archiveOf(t, "a.tar", tarOf(t, c.headers...)))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	if _, err := manifestOf(t.Context(), archiveOf(t, "a.tar.gz", []byte("no gzip"))); err == nil {
		t.Error("data that is not gzip is unpacked")
	}
	cut := tarOf(t, tar.Header{Name: "a", Size: 2000})
	if _, err := manifestOf(t.Context(), archiveOf(t, "a.tar", cut[:1000])); err == nil {
		t.Error("an archive that is cut short is unpacked")
	}
}

// TestArchivesAreBounded: an archive's content may be far larger than it is.
func TestArchivesAreBounded(t *testing.T) {
	t.Parallel()
	var claims bytes.Buffer
	if err := tar.NewWriter(&claims).WriteHeader(&tar.Header{Name: "hole", Size: maxUnpacked + 1, Mode: 0o644}); err != nil {
		t.Fatal(err)
	}
	if _, err := manifestOf(t.Context(), archiveOf(t, "a.tar", claims.Bytes())); err == nil ||
		!strings.Contains(err.Error(), `"hole": the archive unpacks to more than`) {
		t.Errorf("a file of more than the bound: %v", err)
	}
	deep := map[string]entry{"a/b/c": {kind: kindFile, path: "a/b/c"}}
	if m, err := complete(t.Context(), maps.Clone(deep), &room{entries: 2, names: 4}); err != nil || len(m) != 3 {
		t.Errorf("folders within the bounds: %v, %v", m, err)
	}
	for want, left := range map[string]room{"more than 1000000 entries": {entries: 1, names: 100},
		"the names in the archive have more than": {entries: 100, names: 3}} {
		if _, err := complete(t.Context(), maps.Clone(deep), &left); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("folders beyond the bounds: %v, want %q", err, want)
		}
	}
	var zipped bytes.Buffer
	if err := zip.NewWriter(&zipped).Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := zip.NewReader(&listed{bytes.NewReader(zipped.Bytes()), 10}, int64(zipped.Len())); err == nil ||
		!strings.Contains(err.Error(), "the list of its files has more than") {
		t.Errorf("a zip with a long list: %v", err)
	}
}

// TestAnArchiveIsReadNoLongerThanItsAttempt: a sparse file of exabytes takes a few hundred bytes of an archive.
// TestAnArchiveWithALargeWindowIsRefused before the window takes memory.
func TestAnArchiveWithALargeWindowIsRefused(t *testing.T) {
	t.Parallel()
	content := tarOf(t, tar.Header{Name: "a", Typeflag: tar.TypeReg, Size: 1, Mode: 0o600})
	packed := func(window byte) []byte { // one raw block, which is the last
		size := len(content)<<3 | 1
		return append([]byte{0x28, 0xb5, 0x2f, 0xfd, 0, window, byte(size), byte(size >> 8), byte(size >> 16)}, content...)
	}
	const allowed, large = (27 - 10) << 3, (28 - 10) << 3 // 128 MiB, 256 MiB
	if m, err := manifestOf(t.Context(), archiveOf(t, "shop.tar.zst", packed(allowed))); err != nil || len(m) != 1 {
		t.Error(m, err)
	}
	for _, name := range []string{"shop.tar.zst", "shop.tzst"} {
		if _, err := manifestOf(t.Context(), archiveOf(t, name, packed(large))); !errors.Is(err, zstd.ErrWindowSizeExceeded) {
			t.Errorf("%s: a window of 256 MiB: %v", name, err)
		}
	}
}

func TestAnArchiveIsReadNoLongerThanItsAttempt(t *testing.T) {
	t.Parallel()
	ended := errors.New("the attempt has ended")
	ctx, end := context.WithCancelCause(t.Context())
	read := reads(func(p []byte) (int, error) { end(ended); return len(p), nil })
	if err := untilEnd(ctx, func(entry, io.Reader) error { return nil })(entry{}, read); !errors.Is(err, ended) {
		t.Errorf("what is skipped: %v", err)
	}
	if _, err := manifestOf(ctx, archiveOf(t, "a.tar", tarOf(t, tar.Header{Name: "a", Size: 3}))); !errors.Is(err, ended) {
		t.Errorf("what is read: %v", err)
	}
}

func TestTarWithoutItsEndIsRefused(t *testing.T) {
	t.Parallel()
	whole := tarOf(t, tar.Header{Name: "a", Size: 3}, tar.Header{Name: "b", Size: 2000}, tar.Header{Name: "c"})
	end := len(whole) - 1024 // two blocks of zeros end an archive
	for size := 0; size < end+512; size += 128 {
		if _, err := manifestOf(t.Context(), archiveOf(t, "a.tar", whole[:size])); err == nil {
			t.Errorf("the first %d bytes of %d are taken for an archive", size, len(whole))
		}
	}
	if _, err := manifestOf(t.Context(), archiveOf(t, "a.tar", whole[:end+512])); err != nil {
		t.Errorf("one block of zeros, which other programs take for the end: %v", err)
	}
	if _, err := manifestOf(t.Context(), archiveOf(t, "a.tar", whole[:end])); err == nil ||
		!strings.Contains(err.Error(), "the archive is cut off") {
		t.Errorf("cut off between entries and end: %v", err)
	}
}

func TestLinksThatStayInsideAreKept(t *testing.T) {
	t.Parallel()
	m, err := manifestOf(t.Context(), archiveOf(t, "a.tar", tarOf(t, tar.Header{Name: "a/b/file", Size: 1},
		tar.Header{Name: `odd\name`, Size: 1}, tar.Header{Name: "FILE", Size: 1}, tar.Header{Name: "file", Size: 1},
		tar.Header{Name: "to-dir", Typeflag: tar.TypeSymlink, Linkname: "a/b/"},
		tar.Header{Name: "a/through", Typeflag: tar.TypeSymlink, Linkname: "../to-dir/../b/file"},
		tar.Header{Name: "a/root", Typeflag: tar.TypeSymlink, Linkname: "./.."},
		tar.Header{Name: "dangling", Typeflag: tar.TypeSymlink, Linkname: "later/x"},
		tar.Header{Name: "option", Typeflag: tar.TypeSymlink, Linkname: "-ft/etc"})))
	if err != nil {
		t.Fatal(err)
	}
	const want = "f FILE\nd a\nd a/b\nf a/b/file\nl a/root\nl a/through\nl dangling\nf file\nf odd\\name\nl option\nl to-dir\n"
	if diff := cmp.Diff(want, kinds(m)); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestReleaseNames(t *testing.T) {
	t.Parallel()
	for label, want := range map[string]string{"3f2c9a1": "3f2c9a1-0123456789ab", "3f2c9a1+5d81e0": "3f2c9a1+5d81e0-0123456789ab",
		"../x y": "-.-x-y-0123456789ab", "v1.2": "v1.2-0123456789ab"} {
		if got := releaseName(label, "0123456789abcdef"); got != want {
			t.Errorf("%q is %q, want %q", label, got, want)
		}
	}
}

func TestHostProgramIsSmallAndPlain(t *testing.T) {
	t.Parallel()
	const most = 660 // 400 were wanted: systemd, units of people, the fence, self-reverts, sessions of services and private files have no shorter form that is as plain
	if lines := strings.Count(hostProgram, "\n"); lines > most {
		t.Errorf("the host program has %d lines: what runs on other people's hosts must be read in one sitting, so keep it to %d", lines, most)
	}
	for _, word := range []string{"[[", "\tlocal ", "function ", "<<<", "&>", "source ", "$RANDOM", "echo -"} {
		if strings.Contains(hostProgram, word) {
			t.Errorf("host.sh has %q, which not every POSIX shell knows", word)
		}
	}
}

// TestArchivesOfOtherPrograms: a sparse file in the format that GNU tar had before PAX, and a tar from bzip2.
func TestArchivesOfOtherPrograms(t *testing.T) {
	t.Parallel()
	const sparse = "H4sIAAAAAAACA+3Q4QnCMBAG0IySEdoauogTCFYURKGt+xssKVbBfyqU9yDccXCE+47Xcxe+rMralB41e6l1fpsym+Z1WzVNiNvwA7dh3PUxhr9ZXD4nMvVpmdicVHrqy+7HD8rCm8OpH8YAAAAArFl32QsBAAAAAGCF7kLWI/oAKAAA"
	const bzipped = "QlpoOTFBWSZTWXJOOM8AAGxbgMmAYABtgAAA4AAeQAQIIABUQQANGh6gRUnojEDQH3NdIRD2gInEt6m2tqIJILdQZQriExGUs90GQm7sAemZmRfF3JFOFCQck44zwA=="
	for name, c := range map[string]struct{ content, digest string }{
		"a.tgz":     {sparse, "0c580c8ac3baef585b84570195ea11957517bb6030db91182776745d79f0dc67"},
		"a.tar.bz2": {bzipped, digestOf("x")}, "a.TBZ2": {bzipped, digestOf("x")},
	} {
		content, err := base64.StdEncoding.DecodeString(c.content)
		if err != nil {
			t.Fatal(err)
		}
		if m, err := manifestOf(t.Context(), archiveOf(t, name, content)); err != nil || len(m) != 1 || m[0].digest != c.digest {
			t.Errorf("%s: %v, %v", name, m, err)
		}
	}
	if _, err := manifestOf(t.Context(), archiveOf(t, "dist/a.tar.xz", []byte("xz"))); err == nil ||
		!strings.Contains(err.Error(), "archives of the kind .tar.xz are not unpacked") {
		t.Errorf("a kind that is not unpacked: %v", err)
	}
}

func digestOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// TestModesOfFilesAndFolders: the owner's bits decide whether a file is executable, and those of others whether it is
// private.
func TestModesOfFilesAndFolders(t *testing.T) {
	t.Parallel()
	modes := map[string]int64{"private/": 0o700, "private/key": 0o600, "entered/": 0o711, "text": 0o644, "group": 0o640,
		"run": 0o755, "own": 0o700, "others": 0o645,
		"hidden": 0o711, "none": 0, "set": 0o4755}
	const want = "r 0700 private\np 0400 private/key\nd 0755 entered\nf 0444 text\np 0400 group\nx 0555 run\nq 0500 own\n" +
		"f 0444 others\nq 0500 hidden\nx 0555 set\nq 0500 hard\n"
	var tarred, zipped bytes.Buffer
	tw, zw := tar.NewWriter(&tarred), zip.NewWriter(&zipped)
	for name, mode := range modes {
		h := &tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: mode}
		z := &zip.FileHeader{Name: name}
		z.SetMode(os.FileMode(mode) & os.ModePerm)
		if strings.HasSuffix(name, "/") {
			h.Typeflag = tar.TypeDir
			z.SetMode(os.FileMode(mode) | os.ModeDir)
		}
		_, err := zw.CreateHeader(z)
		if err := errors.Join(err, tw.WriteHeader(h)); err != nil {
			t.Fatal(err)
		}
	}
	hard := tw.WriteHeader(&tar.Header{Name: "hard", Typeflag: tar.TypeLink, Linkname: "own", Mode: 0o644})
	if err := errors.Join(hard, tw.Close(), zw.Close()); err != nil {
		t.Fatal(err)
	}
	inTar := want + "p 0400 none\n"
	inZip := strings.Replace(want, "q 0500 hard\n", "x 0555 none\n", 1) // some programs write no modes
	for name, c := range map[string]struct {
		content []byte
		want    string
	}{"a.tar": {tarred.Bytes(), inTar}, "a.zip": {zipped.Bytes(), inZip}} {
		m, err := manifestOf(t.Context(), archiveOf(t, name, c.content))
		if err != nil {
			t.Fatal(name, err)
		}
		var got []string
		for _, e := range m {
			got = append(got, fmt.Sprintf("%c %04o %s", e.kind, e.permissions(), e.path))
		}
		want := strings.Split(strings.TrimSpace(c.want), "\n")
		slices.Sort(got)
		slices.Sort(want)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got)\n%s", name, diff)
		}
	}
}

// TestNamesAreTakenAsProgramsMeanThem: `tar -C dist -czf out.tar.gz .//b` writes such names.
func TestNamesAreTakenAsProgramsMeanThem(t *testing.T) {
	t.Parallel()
	want := strings.Join([]string{"f b", "d d", "f d/c", "f h", ""}, "\n")
	names := []string{".//b", "././/d///./c"}
	content := tarOf(t, tar.Header{Name: names[0], Size: 1}, tar.Header{Name: names[1], Size: 1},
		tar.Header{Name: "x/..//h", Typeflag: tar.TypeLink, Linkname: ".//b"})
	if m, err := manifestOf(t.Context(), archiveOf(t, "a.tar", content)); err != nil || kinds(m) != want {
		t.Errorf("a tar: %q, %v", kinds(m), err)
	}
	if m, err := manifestOf(t.Context(), archiveOf(t, "a.zip", zipOf(t, append(names, ".//h")...))); err != nil || kinds(m) != want {
		t.Errorf("a zip: %q, %v", kinds(m), err)
	}
}

// TestAListIsMadeNoLongerThanItsAttempt: what an archive leaves out may be much more than what it has.
func TestAListIsMadeNoLongerThanItsAttempt(t *testing.T) {
	t.Parallel()
	ended := errors.New("the attempt has ended")
	ctx, end := context.WithCancelCause(t.Context())
	end(ended)
	if _, err := complete(ctx, map[string]entry{"a/b": {kind: kindFile, path: "a/b"}}, &room{1, 1, 1}); !errors.Is(err, ended) {
		t.Errorf("got %v", err)
	}
}

// zipOf returns a zip of files of one byte.
func zipOf(t *testing.T, names ...string) []byte {
	t.Helper()
	var buffer bytes.Buffer
	w := zip.NewWriter(&buffer)
	for _, name := range names {
		f, err := w.CreateHeader(&zip.FileHeader{Name: name})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.Write([]byte("x")); err != nil && !strings.HasSuffix(name, "/") {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return buffer.Bytes()
}

// FuzzNames gives a file, a folder, a link and a hard link any names, in a tar and a zip. Each is refused, or has a clean path
// inside; no entry has more folders above it than its name has slashes, so the work has a bound.
func FuzzNames(f *testing.F) {
	for _, name := range []string{".//b", "/", "//", "./", ".", "..", "", "a", "a/", "//b", "./../b", "a//b/./c", "a/..",
		"a/../..//c", ".//", ".././/a", "a/b/../../..", `\`, `c:\a`, "\x00",
		"a\x00/b", strings.Repeat("a/", 2047), strings.Repeat("../", 9), strings.Repeat("./", 4000) + "b", "é/\xff", "-a",
		"...", "a/.../b", " ", "/././/x"} {
		f.Add(name, ".//b")
		f.Add("l", name)
	}
	f.Fuzz(func(t *testing.T, name, target string) {
		if len(name)+len(target) > 1<<16 {
			return
		}
		if m, err := manifestOf(t.Context(), archiveOf(t, "a.zip", zipOf(t, name, target))); err == nil {
			checkNames(t, m, name, target)
		}
		for _, flag := range []byte{tar.TypeReg, tar.TypeDir, tar.TypeSymlink, tar.TypeLink} {
			var buffer bytes.Buffer
			w := tar.NewWriter(&buffer)
			err := w.WriteHeader(&tar.Header{Name: "b", Typeflag: tar.TypeReg, Mode: 0o644})
			err = errors.Join(err, w.WriteHeader(&tar.Header{Name: name, Linkname: target, Typeflag: flag, Mode: 0o644}), w.Close())
			if err != nil {
				continue // no archive can have it
			}
			if m, err := manifestOf(t.Context(), archiveOf(t, "a.tar", buffer.Bytes())); err == nil {
				checkNames(t, m, name, "b")
			}
		}
	})
}

// checkNames fails unless a manifest has clean paths inside, with all folders above, and no more than the names give.
func checkNames(t *testing.T, m manifest, names ...string) {
	t.Helper()
	most, paths := 0, m.byPath()
	for _, name := range names {
		most += 1 + strings.Count(name, "/")
	}
	if len(m) > most || len(paths) != len(m) {
		t.Errorf("%q has %d entries, %d different paths: %q", names, len(m), len(paths), kinds(m))
	}
	for _, e := range m {
		if e.path == "." || path.Clean(e.path) != e.path || !filepath.IsLocal(e.path) {
			t.Errorf("%q: entry %q", names, e.path)
		}
		if dir := path.Dir(e.path); dir != "." && !paths[dir].isFolder() {
			t.Errorf("%q: entry %q without its folder", names, e.path)
		}
	}
}

func FuzzQuote(f *testing.F) {
	for _, text := range []string{"", "plain", "it's", "$HOME `id` \"x\" \\", "a\nb", "'\\''", "--", "é\xff"} {
		f.Add(text)
	}
	paths := map[string]string{}
	shells := []string{"dash", "bash"}
	for shell := range busyboxShell {
		shells = append(shells, shell)
	}
	for _, shell := range shells {
		path, err := exec.LookPath(shell)
		if err != nil {
			f.Fatalf("install %s", shell)
		}
		paths[shell] = path
	}
	f.Fuzz(func(t *testing.T, text string) {
		if strings.ContainsRune(text, 0) {
			return // no argument can hold it
		}
		for shell, path := range paths {
			argv := []string{path, "-c", "printf %s. " + quote(text)}
			if shell == "busybox" {
				argv = append([]string{path, "sh"}, argv[1:]...)
			}
			got, err := childtest.Command(t, argv[0], argv[1:]...).Output()
			if err != nil || string(got) != text+"." {
				t.Errorf("%s makes %q of %q: %v", shell, got, text, err)
			}
		}
	})
}

// TestAProgramThatIsNotExecutableIsFoundBeforeTheSwitch: zips of some tools, and copies through them, lose the mode.
func TestAProgramThatIsNotExecutableIsFoundBeforeTheSwitch(t *testing.T) {
	t.Parallel()
	m := manifest{{kind: kindFolder, path: "bin"}, {kind: kindFile, path: "bin/plain"}, {kind: kindPrivateFile, path: "bin/private"},
		{kind: kindExecutable, path: "bin/run"}, {kind: kindPrivateExecutable, path: "bin/own"},
		{kind: kindLink, path: "bin/link", target: "plain"}}
	for exec, want := range map[string]string{
		"./bin/plain":   "./bin/plain, which service.exec starts, is not executable: chmod +x it before it is packed",
		"bin/private":   "bin/private, which service.exec starts, is not executable: chmod +x it before it is packed",
		"./bin":         "./bin, which service.exec starts, is a folder",
		"bin//run":      "",
		"./bin/own":     "",
		"./bin/link":    "",
		"./bin/made":    "",
		"/bin/plain":    "",
		"plain":         "",
		"../bin/plain":  "",
		"./bin/../bin/": "./bin/../bin/, which service.exec starts, is a folder",
	} {
		got := ""
		if err := m.starts(&pipeline.Service{Manager: pipeline.ManagerProcess, Exec: []string{exec, "--port"}}); err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%s: got %q, want %q", exec, got, want)
		}
	}
	if err := m.starts(&pipeline.Service{Manager: "none"}); err != nil {
		t.Error(err)
	}
}
