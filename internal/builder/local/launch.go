package local

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	provisionerv1 "github.com/waybill-dev/waybill/api/provisioner/v1"
	shimv1 "github.com/waybill-dev/waybill/api/shim/v1"
	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/builder/worker"
	"github.com/waybill-dev/waybill/internal/builder/worker/api"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/file"
	"github.com/waybill-dev/waybill/internal/git"
	"github.com/waybill-dev/waybill/internal/results"
	"github.com/waybill-dev/waybill/internal/workspace"
)

// Bounds of what a provisioner gives a worker.
const (
	mostLaunch   = provisionerv1.MostBody + 64<<10 // bytes
	cloneTimeout = 30 * time.Minute
	filesTimeout = time.Hour
)

// standardInput is the name of the standard input where a file is wanted.
const standardInput = "-"

// LaunchOptions are the flags of `waybill run` for a provisioner.
type LaunchOptions struct {
	Path string // of what a provisioner wants built, as JSON; standardInput: the standard input; "": none has started this process
	provisionerv1.Launch
}

// On reports whether a provisioner has started this process.
func (f LaunchOptions) On() bool { return f.Path != "" }

// readLaunch reads what a provisioner wants built, if one started this process, and sets the flags that say the same.
func (b *Builder) readLaunch(folder string, flags *Options) error {
	if !flags.Launch.On() {
		return nil
	}
	if folder != "" || flags.contradictLaunch() {
		return fault.New(
			fault.Invalid,
			"--launch wants --results-dir, and excludes a folder, --workspace, --in-place, --dry-run, --resume, --password and --token-file",
		)
	}
	text, err := b.launchText(flags.Launch.Path)
	if err != nil {
		return fault.New(fault.Invalid, "read --launch: %w", file.Plain(err))
	}
	launch := &flags.Launch.Launch
	if err := decodeLaunch(text, launch); err != nil {
		return fault.New(fault.Invalid, "read --launch: %w", err)
	}
	flags.Serve.On, flags.Serve.given = true, launch.Token
	flags.BuildID, flags.Environment, flags.Stages = strconv.FormatInt(launch.BuildID, 10), launch.Environment, launch.Stages
	if launch.File != "" {
		flags.File = launch.File
	}
	if flags.ProjectID = launch.ProjectID; flags.ProjectID == "" && strings.Trim(launch.Project, "0123456789") == "" {
		flags.ProjectID = launch.Project
	}
	for name, value := range launch.Inputs {
		flags.Inputs = append(flags.Inputs, name+"="+value)
	}
	return nil
}

// contradictLaunch reports whether flags say something else than a provisioner does.
func (f *Options) contradictLaunch() bool {
	return f.Workspace != "" || f.InPlace || f.DryRun.On() || f.Resume != "" || f.ResultsDir == "" || f.Serve.TokenFile != "" ||
		f.hidden != nil
}

// decodeLaunch reads and checks what a provisioner wants built.
func decodeLaunch(text []byte, launch *provisionerv1.Launch) error {
	reader := json.NewDecoder(bytes.NewReader(text))
	reader.DisallowUnknownFields()
	if err := reader.Decode(launch); err != nil || reader.More() {
		return errors.New("want one whole object of JSON, as this version of Waybill knows it") // err may quote a password
	}
	if err := launch.Check(); err != nil {
		return err
	}
	if len(launch.Token) < shortestToken {
		return fmt.Errorf("want a token of at least %d bytes", shortestToken)
	}
	return nil
}

// launchText reads a file that other users cannot, or the standard input to its end.
func (b *Builder) launchText(name string) ([]byte, error) {
	in := os.Stdin
	if name != standardInput {
		opened, info, err := file.Open(b.Path(name))
		if err != nil {
			return nil, err
		}
		defer opened.Close()
		in = opened
		if file.OthersMayUse(info) {
			return nil, fmt.Errorf("other users may use %s, which has secrets: chmod 600 %s", name, name)
		}
	}
	text, err := io.ReadAll(io.LimitReader(in, mostLaunch+1))
	if len(text) > mostLaunch {
		return nil, fmt.Errorf("%s has more than %d bytes", name, mostLaunch)
	}
	return text, err
}

// inboxFile is the name of the snapshot or bundle that is sent to this process, in the worker's own folder.
const inboxFile = "inbox.tar.zst"

// openInbox begins to serve the worker API before there is a plan, if a provisioner sends the files. Without one it returns nil.
func (b *Builder) openInbox(ctx context.Context, source *buildSource, flags Options) (*inbox, error) {
	push := flags.Launch.Push
	if push == nil {
		return nil, nil
	}
	path := filepath.Join(source.scratch, inboxFile)
	answers, err := api.NewInbox(api.InboxConfig{Path: path, Push: *push, Token: flags.Serve.given, Log: b.errorLog()})
	if err != nil {
		return nil, err
	}
	listener, err := flags.Serve.open(ctx)
	if err != nil {
		return nil, err
	}
	fmt.Fprintf(b.Err, "files are awaited on http://%s\n", listener.Addr())
	serving, stop := context.WithCancel(context.WithoutCancel(ctx))
	in := &inbox{Inbox: answers, listener: listener, stop: stop, served: make(chan error, 1)}
	go func() { in.served <- answers.Serve(serving, listener) }()
	return in, nil
}

// inbox is the worker API of this process while it waits for its files.
type inbox struct {
	*api.Inbox
	listener net.Listener
	stop     context.CancelFunc
	served   chan error // has the result of Serve
}

// close ends the API. A nil one does nothing.
func (in *inbox) close() error {
	if in == nil {
		return nil
	}
	in.stop()
	err := <-in.served
	in.served <- nil
	return err
}

// receive gets the files that a provisioner wants built: it unpacks the snapshot, once that has come, or clones the repository.
func (s *buildSource) receive(ctx context.Context, launch LaunchOptions, in *inbox) error {
	if !launch.On() {
		return nil
	}
	tree := filepath.Join(s.scratch, "tree")
	s.received = true
	r := launch.Repository
	if r == nil {
		s.name, s.root, s.unpacked = launch.Snapshot, tree, true
		if launch.Revision != "" {
			s.name = launch.Revision
		}
		if in == nil {
			_, err := worker.Snapshot{Path: launch.SnapshotFile}.Take(ctx, tree)
			return err
		}
		return s.unpack(ctx, in, tree)
	}
	s.name, s.root, s.taken = r.URL, tree, r.Subdirectory == ""
	if !s.taken {
		tree = filepath.Join(s.scratch, "clone")
		s.root = filepath.Join(tree, filepath.FromSlash(r.Subdirectory))
	}
	s.whole = tree
	if err := getClone(ctx, launch.Launch, tree); err != nil {
		return fault.Wrap(fault.Unavailable, err)
	}
	root, err := filepath.EvalSymlinks(s.root)
	if err != nil {
		return fault.New(fault.Invalid, "folder %s not found in commit %s of %s", r.Subdirectory, r.Commit, r.URL)
	}
	if inside, err := filepath.EvalSymlinks(tree); err != nil ||
		root != inside && !strings.HasPrefix(root, inside+string(filepath.Separator)) {
		return fault.New(fault.Invalid, "folder %s of commit %s leaves the repository", r.Subdirectory, r.Commit)
	}
	s.root = root
	return nil
}

// stays returns an error if a file that others have written is a link to outside: what this process can read may be a token, and faults of a file
// quote it.
func (s *buildSource) stays(path string) error {
	if !s.unpacked && !s.received {
		return nil
	}
	if !isBelow(s.root, path) {
		return nil // of the user or the machine
	}
	led, err := filepath.EvalSymlinks(path)
	if err != nil {
		return nil //nolint:nilerr // it is missing, which its reader says
	}
	whole, err := filepath.EvalSymlinks(cmp.Or(s.whole, s.root))
	if err != nil {
		return fmt.Errorf("find the files that are built: %w", err)
	}
	if !isBelow(whole, led) {
		return fault.New(fault.Invalid, "%s is a link that leads outside of the files that are built", filepath.Base(path))
	}
	return nil
}

// checkReceived returns an error if what a provisioner had built has no build file. It says where that was looked for, since the folder
// means nothing to who asked for the build.
func (s *buildSource) checkReceived(flags Options) error {
	if !s.received {
		return nil
	}
	if _, err := os.Lstat(filepath.Join(s.root, filepath.FromSlash(flags.File))); !errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	r := flags.Launch.Repository
	if r == nil {
		return fault.New(fault.Invalid, "%s not found in the files of %s", flags.File, s.name)
	}
	where := "commit " + r.Commit
	if r.Branch != "" {
		where += " of branch " + r.Branch
	}
	if r.Subdirectory != "" {
		where = "the folder " + r.Subdirectory + " of " + where
	}
	missing := fault.New(fault.Invalid, "%s not found in %s of %s", flags.File, where, r.URL)
	if other := strings.TrimSuffix(build.FileName, ".yml") + ".yaml"; flags.File == build.FileName {
		if _, err := os.Lstat(filepath.Join(s.root, other)); err == nil {
			return missing.WithHint("rename %s there: only %s is read", other, build.FileName)
		}
	}
	return missing.WithHint("waybill build init   # writes one, to be committed there")
}

// isBelow reports whether a path is in a folder, or the folder itself, by the names alone.
func isBelow(folder, path string) bool {
	rest, err := filepath.Rel(folder, path)
	return err == nil && filepath.IsLocal(rest)
}

// unpack unpacks the snapshot that a provisioner sends.
func (s *buildSource) unpack(ctx context.Context, in *inbox, tree string) error {
	if err := in.await(ctx); err != nil {
		return fault.New(fault.Unavailable, "wait for the files of the build: %w", err)
	}
	path := filepath.Join(s.scratch, inboxFile)
	_, err := worker.Snapshot{Path: path}.Take(ctx, tree)
	return errors.Join(err, os.Remove(path))
}

// await returns when everything has come that a provisioner sends.
func (in *inbox) await(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, filesTimeout, fmt.Errorf("the files have not come within %s", filesTimeout))
	defer cancel()
	return in.Wait(ctx)
}

// earlierResults gets what the steps of an earlier build have left. Without that, every step of this one runs.
func (b *Builder) earlierResults(ctx context.Context, source *buildSource, launch LaunchOptions, in *inbox) *resumption {
	id := strconv.FormatInt(launch.Earlier.BuildID, 10)
	earlier := &resumption{Resumed: worker.Resumed{ID: id}, before: results.Build{ID: id}}
	path := launch.BundleFile
	var err error
	if in != nil {
		path, err = filepath.Join(source.scratch, inboxFile), in.await(ctx)
	}
	if err == nil {
		earlier.Results, earlier.sent, err = unpackBundle(ctx, path, filepath.Join(source.scratch, "earlier"))
	}
	if err != nil {
		earlier.sent = results.Earlier{Missing: "the results of the earlier build cannot be used: " + file.Plain(err).Error()}
	}
	return earlier
}

// unpackBundle unpacks what the steps of an earlier build have left into a folder, and checks it.
func unpackBundle(ctx context.Context, path, dir string) (r *results.Reader, sent results.Earlier, err error) {
	f, _, err := file.Open(path)
	if err != nil {
		return nil, sent, err
	}
	defer f.Close()
	if err := workspace.Extract(ctx, f, dir, ""); err != nil {
		return nil, sent, err
	}
	if r, err = results.Open(dir); err == nil {
		sent, err = r.Earlier()
	}
	_ = os.Remove(path) // else it goes with the worker's folder
	return r, sent, err
}

// getClone clones the repository into a folder, or moves a clone there that was made before.
func getClone(ctx context.Context, launch provisionerv1.Launch, to string) error {
	if launch.Clone == "" {
		ctx, cancel := context.WithTimeoutCause(ctx, cloneTimeout, fmt.Errorf("the clone took longer than %s", cloneTimeout))
		defer cancel()
		r := launch.Repository
		return git.Clone{URL: r.URL, Commit: r.Commit, Branch: r.Branch, Credentials: launch.Credentials}.Into(ctx, to)
	}
	reason, err := file.ReadRegular(launch.Clone+shimv1.CloneError, shimv1.MostCloneError)
	if err == nil {
		return errors.New(build.VisibleText(reason))
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return os.Rename(launch.Clone, to)
}
