package deployer

import (
	"bufio"
	"cmp"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"

	"github.com/waybill-dev/waybill/internal/blob"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/journal"
	"github.com/waybill-dev/waybill/internal/pipeline"
)

// archiveFolder returns the folder in the blob store that has the archive of a deployment, with a slash at its end:
// the name of the archive is its digest. An instance that has lost its pipeline, and reads while another deletes,
// never overwrites a whole archive.
func archiveFolder(name string, number int64) string {
	return fmt.Sprintf("archives/%s/%d/", name, number)
}

// entryReader reads entries of a log.
type entryReader interface {
	Entries(ctx context.Context, q journal.EntryQuery) ([]pipeline.Entry, error)
}

// archivePage is the number of entries of a deployment read at a time. The database sorts all of a deployment for
// each page.
const archivePage = 50_000

// archiving is a deployment whose entries are written to the blob store.
type archiving struct {
	ledger     entryReader
	pipeline   string
	maxEntries int64                      // bounds the entries of a deployment; with more it is errTooLarge
	maxBytes   int64                      // likewise; ReadArchive reads less than MostArchived
	got        journal.ArchivedDeployment // with its number at first
}

// store writes the entries to a blob store: compressed by gzip, an entry a line, in the form that waybill log -o json prints,
// and its digest. The same entries are the same bytes, under the same key. It deletes nothing.
func (a *archiving) store(ctx context.Context, blobs blob.Putter) (err error) {
	from, into := io.Pipe()
	written := make(chan error, 1)
	go func() {
		err := a.writeTo(ctx, into)
		written <- errors.Join(err, into.CloseWithError(err))
	}()
	a.got.Key, _, _, err = blobs.Put(ctx, archiveFolder(a.pipeline, a.got.Number), from)
	_ = from.Close() // ends the writer, should the store have given up; never fails
	if unwritten := <-written; unwritten != nil && !errors.Is(unwritten, io.ErrClosedPipe) {
		return unwritten // the store has only passed it on
	}
	return err
}

// writeTo writes the entries, and notes how many there are and where they were.
func (a *archiving) writeTo(ctx context.Context, into io.Writer) error {
	buffer := bufio.NewWriter(into)
	packed := gzip.NewWriter(buffer)
	bytes := &countingWriter{into: packed}
	encoder := json.NewEncoder(bytes)
	encoder.SetEscapeHTML(false)
	for {
		rows, err := a.ledger.Entries(ctx, journal.EntryQuery{Pipeline: a.pipeline, Deployment: a.got.Number,
			After: a.got.Last, Limit: archivePage, Digests: true})
		if err != nil {
			return err
		}
		if a.got.Entries += int64(len(rows)); a.got.Entries > a.maxEntries {
			return errTooLarge
		}
		for _, row := range rows {
			if err := encoder.Encode(archivedEntry{row, row.Digest}); err != nil {
				return err
			}
			if bytes.count >= a.maxBytes {
				return errTooLarge
			}
			a.got.First, a.got.Last = cmp.Or(a.got.First, row.Seq), row.Seq
		}
		if len(rows) < archivePage {
			return errors.Join(packed.Close(), buffer.Flush())
		}
	}
}

// archivedEntry is a line of an archive.
type archivedEntry struct {
	pipeline.Entry
	Digest pipeline.Digest `json:"digest,omitzero"`
}

// countingWriter counts the bytes that are written through it.
type countingWriter struct {
	into  io.Writer
	count int64
}

func (w *countingWriter) Write(p []byte) (int, error) {
	n, err := w.into.Write(p)
	w.count += int64(n)
	return n, err
}

// MostArchived bounds how many bytes of entries an archive has, and are read of it. A deployment of a million entries has about 400 MB.
const MostArchived = 1 << 30

// ReadArchive calls each with the entries of an archive, in their order. An error of each ends it. If the archive is missing,
// damaged or too large, the error is fault.Corrupt and names the key; each may have been called by then.
func ReadArchive(ctx context.Context, blobs blob.Store, key string, each func(pipeline.Entry) error) error {
	r, _, err := blobs.Get(ctx, key)
	if fault.Is(err, fault.NotFound) {
		return fault.New(fault.Corrupt, "the archive %s is not in the blob store", key).WithHint("restore the blob store from a backup")
	}
	if err != nil {
		return fmt.Errorf("read the archive %s: %w", key, err)
	}
	defer func() { _ = r.Close() }() // what was read counts
	sum := sha256.New()
	bytes := io.TeeReader(r, sum)
	stopped, err := readEntries(bytes, each)
	if stopped {
		return err
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err == nil {
		_, err = io.Copy(io.Discard, bytes) // what gzip has not read belongs to the digest
	}
	if digest := hex.EncodeToString(sum.Sum(nil)); err == nil && digest != path.Base(key) {
		err = fmt.Errorf("its SHA-256 is %s", digest)
	}
	if err != nil {
		return fault.New(fault.Corrupt, "the archive %s is damaged: %w", key, err).WithHint("restore the blob store from a backup")
	}
	return nil
}

// readEntries calls each with the entries of an archive. stopped reports that the error is one of each.
func readEntries(bytes io.Reader, each func(pipeline.Entry) error) (stopped bool, err error) {
	packed, err := gzip.NewReader(bytes)
	if err != nil {
		return false, err
	}
	bounded := &io.LimitedReader{R: packed, N: MostArchived}
	decoder := json.NewDecoder(bounded)
	for {
		var row archivedEntry
		err := decoder.Decode(&row)
		switch {
		case bounded.N <= 0:
			return false, fmt.Errorf("it has more than %d bytes of entries", MostArchived)
		case errors.Is(err, io.EOF):
			return false, nil
		case err != nil:
			return false, err
		}
		row.Entry.Digest = row.Digest
		if err := each(row.Entry); err != nil {
			return true, err
		}
	}
}
