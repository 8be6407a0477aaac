package results

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/file"
)

// Reader reads the results of a build, finished or not. It writes nothing.
type Reader struct{ dir string }

// Open opens the results in dir. It returns fault.NotFound if dir has none.
func Open(dir string) (*Reader, error) {
	if _, err := os.Stat(filepath.Join(dir, buildFile)); errors.Is(err, fs.ErrNotExist) {
		return nil, fault.New(fault.NotFound, "results of a build not found in %s", dir)
	} else if err != nil {
		return nil, fmt.Errorf("open results: %w", err)
	}
	return &Reader{dir}, nil
}

// Dir returns the folder of the results.
func (r *Reader) Dir() string { return r.dir }

// Build reads build.json.
func (r *Reader) Build() (Build, error) {
	var b Build
	err := readJSON(filepath.Join(r.dir, buildFile), &b)
	b.StartedAt = build.ClampTime(b.StartedAt)
	if err == nil && b.Plan == nil {
		err = fault.New(fault.Corrupt, "the build in %s has no plan", r.dir)
	}
	return b, err
}

// Taken reports whether a reader has acknowledged everything.
func (r *Reader) Taken() bool {
	_, err := os.Stat(filepath.Join(r.dir, TakenFile))
	return err == nil
}

// Worker reads worker.json. It returns fault.NotFound when no worker serves the results.
func (r *Reader) Worker() (Worker, error) {
	var w Worker
	err := readJSON(filepath.Join(r.dir, WorkerFile), &w)
	if errors.Is(err, fs.ErrNotExist) || err == nil && !r.Alive() {
		return Worker{}, fault.New(fault.NotFound, "no worker serves the results in %s", r.dir)
	}
	return w, err
}

// Own reports whether the results are in a folder of this user, that others cannot change.
func (r *Reader) Own() bool {
	info, err := os.Stat(r.dir)
	if err != nil {
		return false
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(stat.Uid) == os.Getuid() && info.Mode().Perm()&0o022 == 0
}

// Updates lists the statuses of a step; none when it has not begun.
func (r *Reader) Updates(step int) ([]build.Update, error) {
	var document statusDocument
	err := readJSON(filepath.Join(r.stepDir(step), statusFile), &document)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	for i := range document.Updates {
		u := &document.Updates[i]
		u.Step, u.Timestamp = step, build.ClampTime(u.Timestamp)
	}
	return document.Updates, err
}

// Last returns the present status of a step; Pending when it has none.
func (r *Reader) Last(step int) (build.Update, error) {
	updates, err := r.Updates(step)
	if err != nil || len(updates) == 0 {
		return build.Update{Status: build.Pending}, err
	}
	return updates[len(updates)-1], nil
}

// Final returns the final marker; nil when the build has not ended.
func (r *Reader) Final() (*build.Update, error) {
	last, err := r.Last(0)
	if err != nil || last.Final == nil {
		return nil, err
	}
	return &last, nil
}

// Alive reports whether a worker still writes here.
func (r *Reader) Alive() bool {
	f, _, err := file.Open(filepath.Join(r.dir, lockName))
	if err != nil {
		return false
	}
	defer f.Close()
	return unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB) != nil
}

// State returns the present status of the build, and whether its worker lives. A build without an end whose worker
// does not live is lost. The worker is searched for first: it may write the end and die in the meantime.
func (r *Reader) State() (last build.Update, alive bool, err error) {
	alive = r.Alive()
	last, err = r.Last(0)
	return last, alive, err
}

// Artifacts lists what all steps yielded, step by step.
func (r *Reader) Artifacts() ([]build.Artifact, error) {
	b, err := r.Build()
	if err != nil {
		return nil, err
	}
	all, err := r.ArtifactsOf(len(b.Plan.Steps), 0)
	slices.SortStableFunc(all, func(a, b build.Artifact) int { return cmp.Compare(a.Step, b.Step) })
	return all, err
}

// StepArtifacts lists what one step yielded.
func (r *Reader) StepArtifacts(step int) ([]build.Artifact, error) {
	var document artifactsDocument
	err := readJSON(filepath.Join(r.stepDir(step), artifactsFile), &document)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	for i := range document.Artifacts {
		document.Artifacts[i].Step = step
	}
	return document.Artifacts, nil
}

// OpenArtifact opens the bytes of an artifact.
func (r *Reader) OpenArtifact(a build.Artifact) (*os.File, error) {
	return openArtifact(r.stepDir(a.Step), a)
}

// LogPath returns the path of a step's log.
func (r *Reader) LogPath(step int) string { return filepath.Join(r.stepDir(step), logFile) }

// Log gives the entries of a step to visit, in order. With follow it waits for more until the step has ended, or the
// worker is dead.
func (r *Reader) Log(ctx context.Context, step int, follow bool, visit func(build.Line) error) error {
	tail := &tail{path: r.LogPath(step)}
	defer tail.close()
	for {
		over := !follow || r.over(step)
		err := tail.read(func(id int64, line []byte) error {
			return visit(build.Line{Step: step, ID: id, Entry: build.ParseEntry(line)})
		})
		if err != nil || over {
			return err
		}
		if err := pause(ctx); err != nil {
			return err
		}
	}
}

// over reports whether nothing more will come to a step's log.
func (r *Reader) over(step int) bool {
	last, err := r.Last(step)
	return err != nil || last.Status.Ended() || !r.Alive()
}

// pollEvery is the interval at which a follower in another process polls the file.
const pollEvery = 150 * time.Millisecond

func pause(ctx context.Context) error {
	timer := time.NewTimer(pollEvery)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return nil
	}
}

// tail reads a growing file line by line. A line without its newline is not there yet.
type tail struct {
	path   string
	file   *os.File
	rest   []byte // rest of a line that has no newline yet
	id     int64  // id of the last line
	offset int64  // after it
}

func (t *tail) read(visit func(id int64, line []byte) error) error {
	if t.file == nil {
		f, _, err := file.Open(t.path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		} else if err != nil {
			return fmt.Errorf("read a log: %w", err)
		}
		t.file = f
	}
	in := bufio.NewReaderSize(t.file, 64<<10)
	for {
		part, err := in.ReadSlice('\n')
		t.rest = append(t.rest, part...)
		if len(t.rest) > BatchSize {
			return errLongEntry(t.path, t.offset)
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return fmt.Errorf("read a log: %w", err)
		}
		t.id, t.offset = t.id+1, t.offset+int64(len(t.rest))
		if err := visit(t.id, t.rest); err != nil {
			return err
		}
		t.rest = t.rest[:0]
	}
}

func (t *tail) close() {
	if t.file != nil {
		_ = t.file.Close() // only read
	}
}

// Tail returns the last n entries of a step, and how many there are in all.
func (r *Reader) Tail(step, n int) (entries []build.Entry, total int64, err error) {
	err = r.Log(context.Background(), step, false, func(l build.Line) error {
		l.Text = bytes.Clone(l.Text)
		if len(entries) == n {
			entries = append(entries[:0], entries[1:]...)
		}
		entries, total = append(entries, l.Entry), l.ID
		return nil
	})
	return entries, total, err
}

// Verify proves that everything the final marker and the trailers promise is
// there; fault.Corrupt when it is not.
func (r *Reader) Verify() error {
	final, err := r.Final()
	if err != nil {
		return err
	}
	if final == nil {
		return fault.New(fault.Corrupt, "the build in %s has not ended", r.dir)
	}
	var events int64
	for step := range final.Final.Steps + 1 {
		updates, err := r.Updates(step)
		if err != nil {
			return err
		}
		events += int64(len(updates))
		if len(updates) == 0 || updates[len(updates)-1].Trailer == nil {
			return fault.New(fault.Corrupt, "step %d of the build in %s has no end", step, r.dir)
		}
		if err := r.verifyLog(step, *updates[len(updates)-1].Trailer); err != nil {
			return err
		}
	}
	artifacts, err := r.Artifacts()
	if err != nil {
		return err
	}
	if events != final.Final.Events || len(artifacts) != final.Final.Artifacts {
		return fault.New(fault.Corrupt, "the build in %s has %d events and %d artifacts, its end says %d and %d", r.dir,
			events, len(artifacts), final.Final.Events, final.Final.Artifacts)
	}
	return nil
}

func (r *Reader) verifyLog(step int, want build.Trailer) error {
	if !holds(r.stepDir(step), logFile, want.Bytes, want.SHA256) {
		return fault.New(fault.Corrupt, "the log of step %d in %s is not what its end says", step, r.dir)
	}
	return nil
}

// VerifyStep proves that the log of a step that has ended, and its artifacts, are what they were, and that its test
// results can be read; fault.Corrupt when they are not.
func (r *Reader) VerifyStep(step int) error {
	last, err := r.Last(step)
	if err != nil {
		return err
	}
	if last.Trailer == nil {
		return fault.New(fault.Corrupt, "step %d of the build in %s has no end", step, r.dir)
	}
	if err := r.verifyLog(step, *last.Trailer); err != nil {
		return err
	}
	artifacts, err := r.StepArtifacts(step)
	if err != nil {
		return err
	}
	for _, a := range artifacts {
		if !holds(r.stepDir(step), filepath.FromSlash(a.Path), a.Size, a.SHA256) {
			return fault.New(fault.Corrupt, "artifact %s of step %d in %s is not what was kept", a.Name, step, r.dir)
		}
	}
	_, err = r.TestsOf(step)
	return err
}

// holds reports whether a file of a folder, not a link, has this size and digest.
func holds(dir, path string, size int64, digest string) bool {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return false
	}
	defer root.Close()
	if info, err := root.Lstat(path); err != nil || !info.Mode().IsRegular() || info.Size() != size {
		return false
	}
	f, _, err := file.OpenIn(root, path)
	if err != nil {
		return false
	}
	defer f.Close()
	sum := sha256.New()
	n, err := io.Copy(sum, f)
	return err == nil && n == size && hex.EncodeToString(sum.Sum(nil)) == digest
}

func (r *Reader) stepDir(step int) string {
	return filepath.Join(r.dir, stepsFolder, strconv.Itoa(step))
}

// mostDocument is the bound of a JSON document of the results, in bytes: test results are the largest.
const mostDocument = 256 << 20

func readJSON(path string, v any) error {
	text, err := file.Read(path, mostDocument)
	if err != nil {
		return fmt.Errorf("read results: %w", err)
	}
	if err := json.Unmarshal(text, v); err != nil {
		return fault.New(fault.Corrupt, "read %s: %w", path, err)
	}
	return nil
}
