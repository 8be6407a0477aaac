package docker

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/gofrs/flock"
	"github.com/moby/moby/client"

	"github.com/waybill-dev/waybill/internal/file"
)

// Labels of everything that a worker makes in an Engine.
const (
	labelInstance = "dev.waybill.instance" // whose locks report whether the worker lives
	labelWorker   = "dev.waybill.worker"
	labelBuild    = "dev.waybill.build"
	labelStep     = "dev.waybill.step" // number and path
	labelAttempt  = "dev.waybill.attempt"
)

const (
	instanceFile  = "instance"
	lockExtension = ".lock"
)

// worker is this process as an owner of containers. It holds a lock on a file as long as it lives.
type worker struct {
	dir      string
	instance string // instance of the folder: an Engine may serve other computers and users, whose locks cannot be seen here
	id       string
	lock     *flock.Flock
}

func newWorker(dir string) (*worker, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make a lock for containers: %w", err)
	}
	instance, err := instanceOf(dir)
	if err != nil {
		return nil, fmt.Errorf("make a lock for containers: %w", err)
	}
	w := &worker{dir: dir, instance: instance, id: strings.ToLower(rand.Text()[:12])}
	unnamed := filepath.Join(dir, w.id) // without the name of a lock no sweep looks at it
	w.lock = flock.New(unnamed)
	_, err = w.lock.TryLock()
	if err == nil {
		err = os.Rename(unnamed, w.lockOf(w.id))
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("make a lock for containers: %w", err), w.lock.Close(), os.Remove(unnamed))
	}
	return w, nil
}

func (w *worker) lockOf(id string) string { return filepath.Join(w.dir, id+lockExtension) }

func (w *worker) close() error {
	return errors.Join(os.Remove(w.lockOf(w.id)), w.lock.Close())
}

func (w *worker) labels() map[string]string {
	return map[string]string{labelInstance: w.instance, labelWorker: w.id}
}

// mostInstance is the bound of the file with a folder's name, in bytes.
const mostInstance = 1 << 10

// instanceOf returns the name of this computer and of the folder, which gets a random one when it has none.
func instanceOf(dir string) (string, error) {
	host, err := os.Hostname()
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, instanceFile)
	text, err := file.Read(path, mostInstance)
	if errors.Is(err, fs.ErrNotExist) {
		own := path + "." + rand.Text()
		if err := os.WriteFile(own, []byte(rand.Text()), 0o600); err != nil {
			return "", err
		}
		err := os.Link(own, path) // the first one wins
		if err = errors.Join(ignoreExist(err), os.Remove(own)); err != nil {
			return "", err
		}
		text, err = file.Read(path, mostInstance)
		if err != nil {
			return "", err
		}
	} else if err != nil {
		return "", err
	}
	return host + "/" + strings.TrimSpace(string(text)), nil
}

func ignoreExist(err error) error {
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	return err
}

// gone reports whether a worker of this instance has ended.
func (w *worker) gone(id string) bool {
	if id == w.id || id == "" || strings.ContainsAny(id, `/\`) {
		return false
	}
	path := w.lockOf(id)
	if _, err := os.Lstat(path); err != nil {
		return errors.Is(err, fs.ErrNotExist)
	}
	lock := flock.New(path, flock.SetFlag(os.O_RDWR))
	locked, err := lock.TryLock()
	return errors.Join(err, lock.Close()) == nil && locked
}

// sweep removes leftovers of gone workers, then their locks. It returns those that it could not remove.
func (w *worker) sweep(ctx context.Context, api *client.Client) (remarks []string) {
	ours := make(client.Filters).Add("label", labelInstance+"="+w.instance)
	note := func(err error) {
		if err != nil {
			remarks = append(remarks, fmt.Sprintf("what an earlier build left in the Docker Engine is not removed: %v", err))
		}
	}
	containers, err := api.ContainerList(ctx, client.ContainerListOptions{All: true, Filters: ours})
	note(err)
	for _, c := range containers.Items {
		if w.gone(c.Labels[labelWorker]) {
			note(removeContainer(ctx, api, c.ID))
		}
	}
	networks, err := api.NetworkList(ctx, client.NetworkListOptions{Filters: ours})
	note(err)
	for _, n := range networks.Items {
		if w.gone(n.Labels[labelWorker]) {
			note(removeNetwork(ctx, api, n.ID))
		}
	}
	note(removeVolumes(ctx, api, ours, func(labels map[string]string) bool { return w.gone(labels[labelWorker]) }))
	if len(remarks) == 0 {
		w.removeLocks()
	}
	return remarks
}

// removeLocks removes the locks of workers that are gone, which have left nothing any more.
func (w *worker) removeLocks() {
	files, _ := filepath.Glob(w.lockOf("*")) // the pattern is well-formed
	for _, file := range files {
		if w.gone(strings.TrimSuffix(filepath.Base(file), lockExtension)) {
			_ = os.Remove(file) // else the next one does so
		}
	}
}
