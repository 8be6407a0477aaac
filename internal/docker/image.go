package docker

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/containerd/errdefs"
	"github.com/dustin/go-humanize"
	"github.com/moby/moby/api/types/jsonstream"
	"github.com/moby/moby/client"

	"github.com/waybill-dev/waybill/internal/attempt"
	"github.com/waybill-dev/waybill/internal/build"
)

// Pull is the policy of pulling images.
type Pull string

// When images are pulled.
const (
	PullMissing Pull = "missing"
	PullAlways  Pull = "always"
	PullNever   Pull = "never"
)

// pullNotes is the time between two remarks about a pull.
const pullNotes = 5 * time.Second

// image holds the facts about an image that the runner needs.
type image struct {
	user string // as which its programs run
}

// image finds an image in the Engine, and pulls it first if that is needed.
func (r *Runner) image(ctx context.Context, name string, sink build.Sink) (image, error) {
	lock := r.lockOf(name)
	lock.Lock()
	defer lock.Unlock()
	if r.Pull == PullAlways {
		if err := r.pull(ctx, name, sink); err != nil {
			return image{}, err
		}
	}
	found, err := r.inspect(ctx, name)
	if !errdefs.IsNotFound(err) {
		return found, err
	}
	if r.Pull == PullNever {
		return image{}, &build.StepError{Text: fmt.Sprintf("image %s is not in the Docker Engine, and --pull never forbids to pull it", name)}
	}
	if err := r.pull(ctx, name, sink); err != nil {
		return image{}, err
	}
	return r.inspect(ctx, name)
}

func (r *Runner) lockOf(name string) *sync.Mutex {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.pulled[name] == nil {
		r.pulled[name] = &sync.Mutex{}
	}
	return r.pulled[name]
}

func (r *Runner) inspect(ctx context.Context, name string) (image, error) {
	found, err := persist(ctx, func(ctx context.Context) (client.ImageInspectResult, error) {
		return r.engine.api.ImageInspect(ctx, name)
	})
	if err != nil {
		return image{}, fmt.Errorf("look up image %s: %w", name, err)
	}
	user := ""
	if found.Config != nil {
		user, _, _ = strings.Cut(found.Config.User, ":")
	}
	return image{user: user}, nil
}

// pull pulls an image and notes its progress.
func (r *Runner) pull(ctx context.Context, name string, sink build.Sink) error {
	began := time.Now()
	if err := sink.Note("pull " + name); err != nil {
		return err
	}
	auth, err := credentials(ctx, name)
	if err != nil { // the image may be public
		if err := sink.Note(fmt.Sprintf("pull %s without credentials: %v", name, err)); err != nil {
			return err
		}
	}
	messages, err := persist(ctx, func(ctx context.Context) (client.ImagePullResponse, error) {
		return r.engine.api.ImagePull(ctx, name, client.ImagePullOptions{RegistryAuth: auth})
	})
	if err != nil {
		return pullError(name, err)
	}
	progress := layers{}
	noted := began
	for message, err := range messages.JSONMessages(ctx) {
		if err == nil && message.Error != nil {
			err = message.Error
		}
		if err != nil {
			return pullError(name, err)
		}
		progress.add(message)
		if time.Since(noted) >= pullNotes {
			noted = time.Now()
			if err := sink.Note(fmt.Sprintf("pull %s  %s", name, progress)); err != nil {
				return err
			}
		}
	}
	return sink.Note(fmt.Sprintf("pulled %s in %s", name, time.Since(began).Round(100*time.Millisecond)))
}

// pullError returns the error for an image that cannot be pulled: a StepError if another attempt would come to the same.
func pullError(name string, err error) error {
	if errdefs.IsNotFound(err) || errdefs.IsInvalidArgument(err) || errdefs.IsUnauthorized(err) ||
		errdefs.IsPermissionDenied(err) || attempt.ImageRefused(err.Error()) {
		return &build.StepError{Text: fmt.Sprintf("image %s cannot be pulled: %v", name, err)}
	}
	return fmt.Errorf("pull image %s: %w", name, err)
}

// layers is the progress of a pull: bytes of each layer.
type layers map[string]*jsonstream.Progress

// maxLayers bounds the layers that an Engine can have this computer remember.
const maxLayers = 1000

func (l layers) add(m jsonstream.Message) {
	if m.Progress != nil && m.Status == "Downloading" && (l[m.ID] != nil || len(l) < maxLayers) {
		l[m.ID] = m.Progress
	}
	if seen := l[m.ID]; seen != nil && m.Status == "Download complete" {
		seen.Current = seen.Total
	}
}

func (l layers) String() string {
	var current, total int64
	for _, p := range l {
		current, total = current+p.Current, total+p.Total
	}
	return fmt.Sprintf("%s of %s", humanize.IBytes(uint64(max(0, current))), humanize.IBytes(uint64(max(0, total)))) //nolint:gosec // not negative
}
