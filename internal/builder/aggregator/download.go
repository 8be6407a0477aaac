package aggregator

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/builds"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/loop"
)

const (
	mostMismatches = 3 // fetches of an artifact whose bytes are other than the worker reports
	mostCuts       = 5 // times that a download is cut without a byte between, before the connection counts as lost
)

// fetch stores the bytes of an artifact in the blob store. An artifact whose bytes never match the worker's report is
// Damaged, and the build reports it.
func (r *reader) fetch(ctx context.Context, sent build.Artifact) (builds.Artifact, error) {
	a := builds.Artifact{Artifact: sent}
	if a.Size < 0 {
		return a, fault.New(fault.Corrupt, "artifact %d, %q, has %d bytes", a.ID, a.Name, a.Size)
	}
	key := builds.Folder(r.worker.Build) + "/" + strconv.Itoa(a.ID)
	var wrong *mismatchError
	for range mostMismatches {
		d := &download{ctx: ctx, client: r.client, artifact: a, sum: sha256.New(), delay: r.delay}
		_, _, _, err := r.Blobs.Put(ctx, key, d)
		d.close()
		if err == nil {
			a.State, a.Path = builds.Stored, key
			return a, nil
		}
		var ok bool
		if wrong, ok = errors.AsType[*mismatchError](err); !ok {
			return a, fmt.Errorf("store artifact %d, %s: %w", a.ID, strconv.Quote(a.Name), err)
		}
	}
	a.State = builds.Damaged
	_, err := r.Store.Record(ctx, r.worker.Build, builds.Event{Source: builds.Aggregator, EventID: fmt.Sprintf("artifact-%d-damaged", a.ID),
		Step: a.Step, Reason: "ArtifactDamaged", Message: wrong.Error()})
	return a, err
}

// mismatchError reports that an artifact's bytes are other than the worker reports.
type mismatchError struct {
	artifact builds.Artifact
	got      string
}

// Error names the artifact and what differs.
func (e *mismatchError) Error() string {
	return fmt.Sprintf("artifact %d, %q, has %s; its worker says %d bytes with the SHA-256 %s", e.artifact.ID,
		e.artifact.Name, e.got, e.artifact.Size, e.artifact.SHA256)
}

// download reads the bytes of an artifact, and continues where its connection was cut. Its last read fails with a
// mismatchError unless size and digest are those of the artifact.
type download struct {
	ctx      context.Context // context of the reader that stores it
	client   *client
	artifact builds.Artifact
	sum      hash.Hash
	offset   int64
	cuts     int           // without a byte between
	delay    time.Duration // after a cut
	body     io.ReadCloser
	silence  *time.Timer
	cancel   context.CancelCauseFunc
}

// Read reads the next part.
func (d *download) Read(p []byte) (int, error) {
	for {
		if d.offset == d.artifact.Size {
			return 0, d.check()
		}
		n, err := d.read(p[:min(int64(len(p)), d.artifact.Size-d.offset)])
		if n > 0 {
			d.offset, d.cuts = d.offset+int64(n), 0
			_, _ = d.sum.Write(p[:n]) // never fails
			return n, nil
		}
		d.close()
		if _, ok := errors.AsType[*mismatchError](err); ok || d.ctx.Err() != nil {
			return 0, err
		}
		if d.cuts++; d.cuts > mostCuts {
			return 0, fault.New(fault.Unavailable, "the download was cut at byte %d of %d: %w", d.offset, d.artifact.Size, err)
		}
		if !loop.Pause(d.ctx, d.delay) {
			return 0, context.Cause(d.ctx)
		}
	}
}

// check compares the digest.
func (d *download) check() error {
	if got := hex.EncodeToString(d.sum.Sum(nil)); got != d.artifact.SHA256 {
		return &mismatchError{d.artifact, "the SHA-256 " + got}
	}
	return io.EOF
}

// read reads from the connection, which it opens if necessary.
func (d *download) read(p []byte) (int, error) {
	if d.body == nil {
		if err := d.open(); err != nil {
			return 0, err
		}
	}
	d.silence.Reset(d.client.patience)
	n, err := d.body.Read(p)
	d.silence.Stop()
	if n == 0 && err == nil {
		err = io.ErrNoProgress
	}
	return n, err
}

// open requests the bytes from the offset on.
func (d *download) open() error {
	ctx, cancel := context.WithCancelCause(d.ctx)
	d.cancel, d.silence = cancel, time.AfterFunc(d.client.patience, func() { cancel(errSilence) })
	request, err := http.NewRequestWithContext(ctx, http.MethodGet,
		fmt.Sprintf("%s/api/artifact/%d/download", d.client.base, d.artifact.ID), nil)
	if err != nil {
		return err
	}
	want := http.StatusOK
	if d.offset > 0 {
		want = http.StatusPartialContent
		request.Header.Set("Range", fmt.Sprintf("bytes=%d-", d.offset))
	}
	response, err := d.client.http.Do(request) //nolint:bodyclose // close does, after many reads
	if err != nil {
		return err
	}
	d.body = response.Body
	switch {
	case response.StatusCode != want:
		return fault.New(fault.Unavailable, "the worker answered %s for artifact %d", response.Status, d.artifact.ID)
	case response.ContentLength >= 0 && response.ContentLength != d.artifact.Size-d.offset:
		return &mismatchError{d.artifact, fmt.Sprintf("%d bytes", response.ContentLength+d.offset)}
	}
	return nil
}

// close ends the connection.
func (d *download) close() {
	if d.silence != nil {
		d.silence.Stop()
		d.cancel(nil)
	}
	if d.body != nil {
		_ = d.body.Close() // only read
		d.body = nil
	}
}
