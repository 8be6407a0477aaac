package promotions

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/promotion"
)

// KeepEntries is the age after which the entries of an ended run leave for the blob store, unless a decision may need them.
const KeepEntries = 400 * 24 * time.Hour

const (
	mostArchived = 1000      // runs that one call of Archive archives
	maxArchive   = 256 << 20 // size in bytes above which no archive is read
)

// Blobs is a blob store that keeps archives.
type Blobs interface {
	// Put stores an object; a key that ends in a slash is completed by the digest.
	Put(ctx context.Context, key string, r io.Reader) (stored, digest string, size int64, err error)
	// Get opens an object.
	Get(ctx context.Context, key string) (io.ReadCloser, int64, error)
}

// Archive moves the entries of runs that ended longer ago than KeepEntries to the blob store, at most mostArchived runs. An entry is
// deleted only once its archive is stored, so a call that is interrupted loses nothing and is repeated.
func (p *Promotions) Archive(ctx context.Context, blobs Blobs) error {
	heads, err := p.Pipelines(ctx, HeadQuery{Closed: true})
	if err != nil {
		return err
	}
	left := mostArchived
	for _, h := range heads {
		var numbers []int64
		err := p.list(ctx, "list the ended runs of "+h.Name, func(t *txn) (err error) {
			numbers, err = t.archivable(h.ID, left)
			return err
		})
		for _, n := range numbers {
			if err == nil {
				err = p.archive(ctx, h, n, blobs)
			}
		}
		if left -= len(numbers); err != nil || left == 0 {
			return err
		}
	}
	return nil
}

// archivable returns runs that no decision needs and that ended long ago.
func (t *txn) archivable(head int64, most int) ([]int64, error) {
	needed, err := t.neededRuns(&Head{ID: head}, &State{RunIDs: map[int64]action.ID{}})
	if err != nil {
		return nil, err
	}
	old, err := t.KeptRuns(head, t.Now().Add(-KeepEntries), most+len(needed))
	if err != nil {
		return nil, err
	}
	old = slices.DeleteFunc(old, func(n int64) bool {
		return slices.ContainsFunc(needed, func(r Run) bool { return r.Number == n })
	})
	return old[:min(len(old), most)], nil
}

// archive moves the entries of one run.
func (p *Promotions) archive(ctx context.Context, h Head, number int64, blobs Blobs) error {
	run, err := p.Run(ctx, h.Name, number)
	if err != nil {
		return err
	}
	var entries []Entry
	read := func(t *txn) (err error) {
		entries, err = t.PromotionEntries(EntryQuery{Head: h.ID, Runs: []int64{number}})
		return err
	}
	what := fmt.Sprintf("archive run %s#%d", h.Name, number)
	if err := p.list(ctx, what, read); err != nil {
		return err
	}
	packed, err := pack(entries)
	if err != nil {
		return err
	}
	key, _, _, err := blobs.Put(ctx, fmt.Sprintf("archives/promotion/%s/", run.ID), bytes.NewReader(packed))
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return p.write(ctx, what, func(t *txn) error {
		if err := t.lock(nil, []string{h.UID}); err != nil {
			return err
		}
		count := len(entries)
		if err := read(t); err != nil {
			return err
		}
		if len(entries) != count {
			return nil // the end of an attempt came in between; the next call archives the run
		}
		return t.ArchiveRun(h.ID, number, key)
	})
}

// archived is an entry as an archive has it.
type archived struct {
	Seq    int64             `json:"seq"`
	Run    int64             `json:"run"`
	Env    promotion.EnvName `json:"environment,omitempty"`
	Target string            `json:"target,omitempty"` // cluster/namespace
	Event  promotion.Event   `json:"event"`
	Class  Class             `json:"class"`
	At     time.Time         `json:"at"`
	By     string            `json:"by,omitempty"`
	Detail string            `json:"detail,omitempty"`
	Action action.ID         `json:"action,omitzero"`
}

// pack returns an archive: compressed by gzip, an entry a line.
func pack(entries []Entry) ([]byte, error) {
	var buffer bytes.Buffer
	packed := gzip.NewWriter(&buffer)
	lines := json.NewEncoder(packed)
	for _, e := range entries {
		err := lines.Encode(archived{e.Seq, e.Run, e.Env, TargetText(e.Target), e.Event, e.Class, e.At, e.By, e.Detail, e.ActionID})
		if err != nil {
			return nil, fmt.Errorf("write an archive: %w", err)
		}
	}
	err := packed.Close()
	return buffer.Bytes(), err
}

// ReadArchive reads the entries of an archived run. Those that came after its archiving are in the database.
func ReadArchive(ctx context.Context, blobs Blobs, r Run) (entries []Entry, err error) {
	stored, _, err := blobs.Get(ctx, r.Archive)
	if err != nil {
		return nil, fmt.Errorf("read the archive of %s#%d: %w", r.Pipeline, r.Number, err)
	}
	defer func() { _ = stored.Close() }() // the entries that were read count
	damaged := func(err error) error {
		return fault.New(fault.Corrupt, "the archive of %s#%d is damaged: %w", r.Pipeline, r.Number, err)
	}
	plain, err := gzip.NewReader(stored)
	if err != nil {
		return nil, damaged(err)
	}
	lines := json.NewDecoder(io.LimitReader(plain, maxArchive))
	for {
		var a archived
		switch err := lines.Decode(&a); {
		case errors.Is(err, io.EOF):
			return entries, nil
		case err != nil:
			return nil, damaged(err)
		}
		entries = append(entries, Entry{Seq: a.Seq, Class: a.Class, ActionID: a.Action, Fact: promotion.Fact{Run: a.Run, Env: a.Env,
			Target: ParseTarget(a.Target), Event: a.Event, At: a.At, By: a.By, Detail: a.Detail}})
	}
}
