package provisioner

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	provisionerv1 "github.com/waybill-dev/waybill/api/provisioner/v1"
	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/command"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/file"
	"github.com/waybill-dev/waybill/internal/loop"
	"github.com/waybill-dev/waybill/internal/obs"
)

// LocalConfig configures workers that are processes of this machine. Every field must be set, unless its comment
// makes it optional.
type LocalConfig struct {
	Dir         string            // the workers' folders
	Program     []string          // argv of this binary, to which run and its flags are appended
	Blobs       Blobs             // where snapshots are
	Credentials map[string]string // paths of files of git-credential-store, by name; may be nil
	Host        string            // address at which workers listen, each at a free port; "": 127.0.0.1
	Advertise   string            // name or address by which readers reach Host; "": Host
	Grace       time.Duration     // how long a worker may take to end; 0: 10 min
	Linger      time.Duration     // how long a worker stays after its build's end; 0: 24 h
	Keep        time.Duration     // how long what a worker left is kept that no reader acknowledged; 0: 7 days
	Log         *slog.Logger
}

// Blobs is the source of snapshots.
type Blobs interface {
	Get(ctx context.Context, key string) (io.ReadCloser, int64, error)
}

// Defaults of local workers.
const (
	defaultHost   = "127.0.0.1"
	defaultGrace  = 10 * time.Minute
	defaultLinger = 24 * time.Hour
	defaultKeep   = 7 * 24 * time.Hour
	// killAfter is the time between the end of the grace and the killing of a worker: it ends before, unless it
	// hangs.
	killAfter = 30 * time.Second
	// lookEvery is the interval of the search for workers that are to be killed or removed.
	lookEvery = 10 * time.Second
)

// Local is the back end whose workers are processes of this machine. One process uses a folder at a time.
type Local struct {
	LocalConfig
	lock  *os.File
	ended chan struct{} // wakes Run when a worker of this process has ended

	mu sync.Mutex // held while records are read to be changed
}

var _ Backend = (*Local)(nil)

// OpenLocal makes or opens the folder of the workers.
func OpenLocal(c LocalConfig) (*Local, error) {
	c.Host = cmp.Or(c.Host, defaultHost)
	c.Grace, c.Linger, c.Keep = cmp.Or(c.Grace, defaultGrace), cmp.Or(c.Linger, defaultLinger), cmp.Or(c.Keep, defaultKeep)
	if err := os.MkdirAll(c.Dir, 0o700); err != nil {
		return nil, fault.New(fault.Unavailable, "make the folder of the workers: %w", err)
	}
	lock, err := os.OpenFile(filepath.Join(c.Dir, "lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fault.New(fault.Unavailable, "lock the folder of the workers: %w", err)
	}
	if err := lockSoon(lock); err != nil {
		return nil, errors.Join(fault.New(fault.Unavailable, "another provisioner uses %s: %w", c.Dir, err), lock.Close())
	}
	return &Local{LocalConfig: c, lock: lock, ended: make(chan struct{}, 1)}, nil
}

// lockSoon locks a file. A worker that a killed provisioner has just forked holds the lock until it runs its program.
func lockSoon(file *os.File) error {
	const attempts, pause = 50, 100 * time.Millisecond
	err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	for range attempts {
		if err == nil {
			break
		}
		time.Sleep(pause)
		err = unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	}
	return err
}

// Close lets another process use the folder. The workers run on.
func (l *Local) Close() error { return l.lock.Close() }

// record is worker.json in the folder of a worker.
type record struct {
	BuildID   int64     `json:"buildId"`
	Project   string    `json:"project,omitempty"`
	Instance  string    `json:"instance"`
	Digest    string    `json:"digest"` // digest of the request
	Key       int       `json:"key"`    // number of the builder key that its token is made of
	CreatedAt time.Time `json:"createdAt"`

	Process   command.Instance `json:"process,omitzero"` // zero: none was started yet
	StartedAt time.Time        `json:"startedAt,omitzero"`
	DeletedAt time.Time        `json:"deletedAt,omitzero"` // time of the request to delete it, just before SIGTERM
}

// mostRecord is the bound of a record, in bytes.
const mostRecord = 64 << 10

// Files of a worker's folder.
const (
	recordFile   = "worker.json"
	resultsDir   = "results"
	errorsFile   = "errors.txt" // the output of the process to standard error
	snapshotFile = "snapshot.tar.zst"
	bundleFile   = "bundle.tar.zst" // bundle of the resumed build
	idPrefix     = "local-"
)

func (l *Local) folder(buildID int64) string {
	return filepath.Join(l.Dir, strconv.FormatInt(buildID, 10))
}

// read reads a record; found is false if the build never had a worker, or has none any more.
func (l *Local) read(buildID int64) (r record, found bool, err error) {
	text, err := file.Read(filepath.Join(l.folder(buildID), recordFile), mostRecord)
	if errors.Is(err, fs.ErrNotExist) {
		return record{}, false, nil
	}
	if err == nil {
		err = json.Unmarshal(text, &r)
	}
	if err != nil {
		return record{}, false, fault.New(fault.Unavailable, "read the record of build %d's worker: %w", buildID, err)
	}
	return r, true, nil
}

// write replaces a record, durably.
func (l *Local) write(r record) (err error) {
	text, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		return err
	}
	path := filepath.Join(l.folder(r.BuildID), recordFile)
	f, err := os.OpenFile(path+".new", os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err == nil {
		_, err = f.Write(append(text, '\n'))
		err = errors.Join(err, f.Sync(), f.Close())
	}
	if err == nil {
		err = os.Rename(path+".new", path)
	}
	if err != nil {
		return fault.New(fault.Unavailable, "record the worker of build %d: %w", r.BuildID, err)
	}
	return nil
}

// Create starts a worker, or finds the one that was started.
func (l *Local) Create(ctx context.Context, launch Launch) (provisionerv1.Worker, bool, error) {
	if w, err := l.known(launch); w != nil || err != nil {
		return first(w), false, err
	}
	given, err := l.prepare(ctx, launch)
	if err != nil {
		return provisionerv1.Worker{}, false, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	w, err := l.knownLocked(launch) // another request may have been faster
	if w != nil || err != nil {
		return first(w), false, errors.Join(err, removeCopy(given))
	}
	r := record{BuildID: launch.BuildID, Project: launch.Project, Instance: launch.Instance, Digest: launch.Digest,
		Key: launch.Key, CreatedAt: time.Now().UTC()}
	if err := l.start(&r, given); err != nil {
		return provisionerv1.Worker{}, false, errors.Join(err, removeCopy(given))
	}
	l.Log.Info("worker started", obs.KeyBuildID, r.BuildID, obs.KeyWorkerID, workerID(r.BuildID), obs.KeyPID, r.Process.PID)
	return l.worker(r), true, nil
}

func first(w *provisionerv1.Worker) provisionerv1.Worker {
	if w == nil {
		return provisionerv1.Worker{}
	}
	return *w
}

func (l *Local) known(launch Launch) (*provisionerv1.Worker, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.knownLocked(launch)
}

// knownLocked returns the worker that the build has; nil if one is to be started.
func (l *Local) knownLocked(launch Launch) (*provisionerv1.Worker, error) {
	r, found, err := l.read(launch.BuildID)
	switch {
	case err != nil || !found:
		return nil, err
	case r.Digest != launch.Digest:
		return nil, errOtherRequest(launch)
	case !r.DeletedAt.IsZero():
		return nil, errDeleted(launch)
	}
	alive, err := r.Process.Alive()
	if err != nil {
		return nil, fault.Wrap(fault.Unavailable, err)
	}
	if !alive && !l.began(r) { // a provisioner died before it gave the worker anything to do
		return nil, nil
	}
	w := l.worker(r)
	return &w, nil
}

// began reports whether a worker has begun its results.
func (l *Local) began(r record) bool {
	_, err := os.Lstat(filepath.Join(l.folder(r.BuildID), resultsDir))
	return !errors.Is(err, fs.ErrNotExist)
}

// prepare checks the worker's inputs, and copies the snapshot to where the worker reads it.
func (l *Local) prepare(ctx context.Context, launch Launch) (provisionerv1.Launch, error) {
	given := provisionerv1.Launch{CreateWorker: launch.CreateWorker, Token: launch.Token, Trace: launch.Trace}
	if r := launch.Repository; r != nil {
		path, err := credentialFile(l.Credentials, r.Credential)
		if err != nil {
			return given, err
		}
		given.Credentials = path
		if err := checkClone(r); err != nil {
			return given, err
		}
	}
	var err error
	switch {
	case launch.Repository == nil:
		given.SnapshotFile, err = l.copyBlob(ctx, launch.BuildID, launch.Snapshot, snapshotFile)
	case launch.Earlier != nil:
		given.BundleFile, err = l.copyBlob(ctx, launch.BuildID, launch.Earlier.Bundle, bundleFile)
	default:
		err = l.makeFolder(launch.BuildID)
	}
	return given, err
}

// makeFolder makes the folder of a worker. It stays for a while without one, and counts in every list, so a refused
// request must not have it made.
func (l *Local) makeFolder(buildID int64) error {
	if err := os.MkdirAll(l.folder(buildID), 0o700); err != nil {
		return fault.New(fault.Unavailable, "make the folder of a worker: %w", err)
	}
	return nil
}

// copyBlob copies a blob into the folder of a worker, and returns the file, whose name has the given ending.
func (l *Local) copyBlob(ctx context.Context, buildID int64, key, name string) (path string, err error) {
	blob, _, err := l.Blobs.Get(ctx, key)
	if err != nil {
		return "", fmt.Errorf("read %s of the worker: %w", name, err)
	}
	defer blob.Close()
	if err := l.makeFolder(buildID); err != nil {
		return "", err
	}
	file, err := os.CreateTemp(l.folder(buildID), "*."+name)
	if err != nil {
		return "", fault.New(fault.Unavailable, "copy %s of the worker: %w", name, err)
	}
	_, err = io.Copy(file, blob)
	if err := errors.Join(err, file.Close()); err != nil {
		return "", fault.New(fault.Unavailable, "copy %s of the worker: %w", name, errors.Join(err, os.Remove(file.Name())))
	}
	return file.Name(), nil
}

// removeCopy removes the copy of the blob that a launch has, if any.
func removeCopy(given provisionerv1.Launch) error {
	path := cmp.Or(given.SnapshotFile, given.BundleFile)
	if path == "" {
		return nil
	}
	return os.Remove(path)
}

// start starts the process, records it, and only then gives it its work. Without that it ends on its own.
func (l *Local) start(r *record, given provisionerv1.Launch) error {
	folder := l.folder(r.BuildID)
	text, err := json.Marshal(given)
	if err != nil {
		return err
	}
	errs, err := os.OpenFile(filepath.Join(folder, errorsFile), os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return fault.New(fault.Unavailable, "start a worker: %w", err)
	}
	defer errs.Close()
	argv := append(slices.Clone(l.Program), "run", "--launch", "-", "--runner", "process", "--results-dir", filepath.Join(folder, resultsDir),
		"--listen", net.JoinHostPort(l.Host, "0"), "--linger", l.Linger.String(), "--termination-grace", l.Grace.String())
	c := exec.Command(argv[0], argv[1:]...) //nolint:noctx // it outlives this process
	c.Dir, c.Env, c.Stderr, c.SysProcAttr = folder, environ(os.Environ()), errs, &syscall.SysProcAttr{Setsid: true}
	input, err := c.StdinPipe()
	if err != nil {
		return fault.New(fault.Unavailable, "start a worker: %w", err)
	}
	if err := c.Start(); err != nil {
		return fault.New(fault.Unavailable, "start a worker: %w", errors.Join(err, input.Close()))
	}
	ended := make(chan struct{})
	go func() { // it waits until the worker ends, which may be after this process
		_, _ = c.Process.Wait()
		close(ended)
		loop.Poke(l.ended)
	}()
	r.Process, err = command.InstanceOf(c.Process.Pid)
	r.StartedAt = time.Now().UTC()
	if err == nil {
		err = l.write(*r)
	}
	if err == nil {
		_, err = input.Write(text)
	}
	if closed := input.Close(); err == nil {
		err = closed
	}
	if err != nil {
		_ = c.Process.Kill() // it has done nothing yet
		<-ended
		return fault.New(fault.Unavailable, "start a worker: %w", err)
	}
	return nil
}

// environ returns the environment of a worker: without the variables that configure this program's own commands.
func environ(own []string) []string {
	return slices.DeleteFunc(own, func(pair string) bool {
		return strings.HasPrefix(pair, "WAYBILL_") && !strings.HasPrefix(pair, "WAYBILL_SECRET_")
	})
}

// reachable returns the address by which readers reach a worker that serves at another.
func (l *Local) reachable(address string) string {
	at, err := url.Parse(address)
	if l.Advertise == "" || err != nil {
		return address
	}
	at.Host = net.JoinHostPort(l.Advertise, at.Port())
	return at.String()
}

// workerID returns the id of a build's worker.
func workerID(buildID int64) string { return idPrefix + strconv.FormatInt(buildID, 10) }

// parseID returns the build of a worker's id; false if it is not one of this back end.
func parseID(workerID string) (buildID int64, ok bool) {
	digits, ok := strings.CutPrefix(workerID, idPrefix)
	buildID, err := strconv.ParseInt(digits, 10, 64)
	return buildID, ok && err == nil && buildID > 0 && digits == strconv.FormatInt(buildID, 10)
}

// errorText returns the end of the output of a worker to standard error.
func errorText(path string) string {
	f, info, err := file.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	const most = 500
	if info.Size() > most {
		_, _ = f.Seek(-most, io.SeekEnd)
	}
	text, _ := io.ReadAll(io.LimitReader(f, most)) // what can be read is shown
	return strings.TrimSpace(build.Printable(string(text), nil))
}
