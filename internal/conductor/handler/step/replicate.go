package step

import (
	"archive/tar"
	"bufio"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/klauspost/compress/gzip"

	"github.com/waybill-dev/waybill/internal/fault"
)

// replicate brings the release to the host: its missing files go there in one stream. A host that has it all gets one
// request.
func (t *attempt) replicate(ctx context.Context) (Output, error) {
	a, err := t.open(ctx)
	if err != nil {
		return Output{}, err
	}
	defer a.remove()
	m, err := manifestOf(ctx, &a.archive)
	if ctx.Err() != nil {
		return Output{}, context.Cause(ctx)
	}
	if err == nil {
		err = m.starts(&t.Service) // found at the switch, it would leave the host without a service for a while
	}
	if err != nil {
		return Output{}, fault.Permanent(fault.New(fault.Invalid, "artifact %s of revision %s: %w", t.artifact.Name, t.revision.Label, err))
	}
	out := Output{Release: t.release, Size: m.size()}
	list := m.String()
	answer, err := t.program().call(ctx, func() io.Reader { return strings.NewReader(list) }, "replicate",
		append(t.common(ctx), pair("bytes", len(list)))...)
	if err != nil {
		return Output{}, err
	}
	out.Release = cmp.Or(answer.first("folder"), t.release)
	if answer.first("state") != "lacking" {
		out.Already = answer.first("state") == "present"
		return out, nil
	}
	lacking := transfer{&a.archive, m, map[string]bool{}}
	for _, name := range answer["lacks"] {
		lacking.lacks[name] = true
	}
	if out.Sent, err = t.checkSpace(lacking, answer.first("free")); err != nil {
		return Output{}, err
	}
	resumed, err := t.sendLarge(ctx, lacking, partsOf(answer))
	if err != nil {
		return Output{}, err
	}
	out.Sent -= resumed
	return out, t.send(ctx, lacking)
}

// large is the size in bytes from which a content is sent on its own. The part that arrives before a connection
// breaks is not sent again.
const large = 8 << 20

// partsOf returns how many bytes of each large content are on the host already.
func partsOf(answer report) map[string]int64 {
	parts := map[string]int64{}
	for _, line := range answer["has"] {
		var name string
		var size int64
		if _, err := fmt.Sscan(line, &name, &size); err == nil {
			parts[name] = size
		}
	}
	return parts
}

// transfer is a release on its way to a host.
type transfer struct {
	*archive
	manifest
	lacks map[string]bool // contents that the host does not have, by name
}

// sendLarge sends the large contents that the host lacks, and takes them from lacks. It returns the
// number of bytes that were there.
func (t *attempt) sendLarge(ctx context.Context, r transfer, parts map[string]int64) (resumed int64, err error) {
	known := r.byPath()
	if !slices.ContainsFunc(r.manifest, func(e entry) bool { return e.size >= large && r.lacks[e.content()] }) {
		return 0, nil
	}
	return resumed, r.visit(ctx, func(e entry, content io.Reader) error {
		e = known[e.path]
		name := e.content()
		if e.size < large || !r.lacks[name] || e.source != "" {
			return nil
		}
		delete(r.lacks, name)
		offset := parts[name]
		if offset >= e.size {
			offset = 0 // it is not what it claims: else it would have its name
		}
		if _, err := io.CopyN(io.Discard, content, offset); err != nil {
			return err
		}
		resumed += offset
		_, err := t.program().call(ctx, func() io.Reader { return content }, "part",
			append(t.common(ctx), pair("offset", offset), pair("bytes", e.size), "--", name)...)
		return err
	})
}

// checkSpace returns the bytes to be sent. The host needs room for twice as much: received, and
// kept.
func (t *attempt) checkSpace(r transfer, free string) (int64, error) {
	var need int64
	counted := map[string]bool{}
	for _, e := range r.manifest {
		if name := e.content(); r.lacks[name] && !counted[name] {
			counted[name] = true
			need += e.size
		}
	}
	kib, err := strconv.ParseInt(free, 10, 64) // a host that does not report its free space is tried
	if room := kib << 10; err == nil && room < 2*need {
		return 0, fault.Permanent(fault.New(fault.Unavailable, "host %s has %s free, and release %s needs twice %s", t.Host.Name,
			humanize.Bytes(uint64(max(room, 0))), t.release, humanize.Bytes(uint64(need))).WithHint("make room on the disk of %s", t.folder))
	}
	return need, nil
}

// send streams the release: the contents that the host lacks, and the names that they have in it.
func (t *attempt) send(ctx context.Context, sent transfer) error {
	r, w := io.Pipe()
	written := make(chan error, 1)
	go func() {
		err := sent.write(ctx, w)
		w.CloseWithError(err)
		written <- err
	}()
	_, err := t.program().call(ctx, func() io.Reader { return r }, "receive", t.common(ctx)...)
	r.CloseWithError(errStopped)
	if writing := <-written; writing != nil && !errors.Is(writing, errStopped) {
		return fault.New(fault.Failed, "send release %s to host %s: %w", t.release, t.Host.Name, writing)
	}
	return err
}

// errStopped ends the writer of a stream whose reader has stopped.
var errStopped = errors.New("the host reads no more")

// Folders in the stream that makes a release, below the folder of the service.
const (
	incomingDir = ".waybill/incoming/" // contents that the host lacks, by their names in cas
	casDir      = "cas/"               // contents that it has
	freshDir    = "releases/.new/"     // the release
)

// write writes the tar.gz from which the host makes a release. A file of the release is a hard link
// to its content. Names of hosts' tars differ least in the format of GNU: busybox knows no other for long ones.
func (r transfer) write(ctx context.Context, w io.Writer) error {
	packets := bufio.NewWriterSize(w, 64<<10) // each write is a packet of ssh, and the compressor makes small ones
	zipped, err := gzip.NewWriterLevel(packets, gzip.BestSpeed)
	if err != nil {
		return err
	}
	stream := tar.NewWriter(zipped)
	if err := r.writeContents(ctx, stream); err != nil {
		return err
	}
	for _, e := range r.manifest {
		if err := stream.WriteHeader(headerOf(e, r.lacks)); err != nil {
			return err
		}
	}
	return errors.Join(stream.Close(), zipped.Close(), packets.Flush())
}

// headerOf returns the header of a release's entry.
func headerOf(e entry, lacks map[string]bool) *tar.Header {
	h := &tar.Header{Typeflag: tar.TypeLink, Name: freshDir + e.path, Mode: e.permissions(), ModTime: time.Unix(0, 0), Format: tar.FormatGNU}
	switch name := e.content(); {
	case e.isFolder():
		h.Typeflag = tar.TypeDir
		h.Name += "/"
	case e.kind == kindLink:
		h.Typeflag, h.Linkname = tar.TypeSymlink, e.target
	case lacks[name]:
		h.Linkname = incomingDir + name
	default:
		h.Linkname = casDir + name
	}
	return h
}

// writeContents writes the contents that the host lacks, each once.
func (r transfer) writeContents(ctx context.Context, stream *tar.Writer) error {
	if len(r.lacks) == 0 {
		return nil
	}
	known := r.byPath()
	sent := map[string]bool{}
	return r.visit(ctx, func(e entry, content io.Reader) error {
		e = known[e.path]
		name := e.content()
		if !r.lacks[name] || sent[name] || e.source != "" {
			return nil
		}
		sent[name] = true
		header := &tar.Header{Typeflag: tar.TypeReg, Name: incomingDir + name, Size: e.size, Mode: e.permissions(),
			ModTime: time.Unix(0, 0), Format: tar.FormatGNU}
		if err := stream.WriteHeader(header); err != nil {
			return err
		}
		_, err := io.Copy(stream, content)
		return err
	})
}

// opened is an artifact in a file that is this process's own, or the store's.
type opened struct {
	archive
	temporary bool
}

// open fetches the artifact and makes sure that it is the registered one.
func (t *attempt) open(ctx context.Context) (*opened, error) {
	r, _, err := t.config.Blobs.Get(ctx, t.artifact.Blob)
	if err != nil {
		return nil, unread(err, "read artifact %s of revision %s", t.artifact.Name, t.revision.Label)
	}
	a := &opened{archive: archive{name: t.artifact.Name}}
	sum := sha256.New()
	if file, ok := r.(*os.File); ok {
		a.file = file
		_, err = io.Copy(sum, file)
	} else {
		err = a.spool(io.TeeReader(r, sum))
		err = errors.Join(err, r.Close())
	}
	if err != nil {
		a.remove()
		return nil, fmt.Errorf("read artifact %s: %w", t.artifact.Name, err)
	}
	if got := hex.EncodeToString(sum.Sum(nil)); got != t.artifact.Digest {
		a.remove()
		return nil, fault.Permanent(fault.New(fault.Corrupt, "artifact %s of revision %s was registered with SHA-256 %s, and is stored with %s",
			t.artifact.Name, t.revision.Label, t.artifact.Digest, got).WithHint("build the revision again"))
	}
	return a, nil
}

// spool copies a stream that is not a file into a temporary file.
func (a *opened) spool(r io.Reader) error {
	file, err := os.CreateTemp("", "waybill-artifact-*")
	if err != nil {
		return err
	}
	a.file, a.temporary = file, true
	_, err = io.Copy(file, r)
	return err
}

func (a *opened) remove() {
	if a.file == nil {
		return
	}
	_ = a.file.Close() // read only, or thrown away
	if a.temporary {
		_ = os.Remove(a.file.Name())
	}
}
