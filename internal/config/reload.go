package config

import (
	"context"
	"crypto/sha256"
	"errors"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"os"
	"reflect"
	"strings"
	"time"

	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/file"
	"github.com/waybill-dev/waybill/internal/obs"
	"github.com/waybill-dev/waybill/internal/queue"
)

// lookEvery is the interval between reads of the file, which show whether it was replaced: mounted ConfigMaps swap
// links, which no watch of a file sees.
const lookEvery = 5 * time.Second

// ReloadOptions configures a Reloader.
type ReloadOptions struct {
	File string // path of server.yaml; it may be missing until it was found once
	Read []byte // its content when Live was made of it; nil: it was not there
	Live *Live  // what it keeps up to date
	// Prepare changes and checks a configuration that was read, before anything is in force, and makes the parts of
	// it that the roles need; commit puts that in place, just before the configuration is in force. Either may be
	// nil.
	Prepare func(ctx context.Context, c *Config) (commit func(), err error)
	Asked   <-chan os.Signal   // each signal reloads, whatever the content; may be nil
	Report  func(queue.Reload) // gets the result of the first load and each different one; may be nil
	Log     *slog.Logger       // default: none
	Metrics *obs.Reload        // default: unregistered
}

// Reloader puts a changed file in force while everything runs. A file with faults changes nothing.
type Reloader struct {
	o   ReloadOptions
	log *slog.Logger

	last queue.Reload
	seen [sha256.Size]byte // digest of the content that was read last; zero if there was none
}

// NewReloader makes the reloader of a configuration that has just come into force.
func NewReloader(o ReloadOptions) *Reloader {
	if o.Metrics == nil {
		o.Metrics = obs.NewReload(nil)
	}
	if o.Report == nil {
		o.Report = func(queue.Reload) {}
	}
	now := time.Now()
	o.Metrics.OK.Set(1)
	o.Metrics.Timestamp.Set(float64(now.Unix()))
	r := &Reloader{o: o, log: obs.Component(o.Log, "config"), last: queue.Reload{Since: now.UTC()}}
	if o.Read != nil {
		r.last.File, r.seen = o.File, sha256.Sum256(o.Read)
	}
	o.Report(r.last)
	return r
}

// Run looks at the file until ctx ends, and returns nil.
func (r *Reloader) Run(ctx context.Context) error {
	for {
		timer := time.NewTimer(lookEvery - time.Duration(rand.Int64N(int64(lookEvery/10))))
		asked := false
		select {
		case <-timer.C:
		case <-r.o.Asked:
			asked = true
		case <-ctx.Done():
			timer.Stop()
			return nil
		}
		timer.Stop()
		r.look(ctx, asked)
	}
}

// look reloads a file that changed, or when a reload was requested.
func (r *Reloader) look(ctx context.Context, asked bool) {
	source, err := file.Read(r.o.File, file.Most)
	switch {
	case errors.Is(err, fs.ErrNotExist) && r.seen == [sha256.Size]byte{}:
		return // there never was one
	case err != nil:
		r.refuse(fault.New(fault.Invalid, "read the configuration: %w", err), sha256.Sum256([]byte(err.Error())), asked)
		return
	}
	sum := sha256.Sum256(source)
	if sum == r.seen && !asked {
		return
	}
	if err := r.reload(ctx, source); err != nil {
		r.refuse(err, sum, true)
		return
	}
	r.seen = sum
}

// reload checks a file whole, then puts it in force.
func (r *Reloader) reload(ctx context.Context, source []byte) error {
	began := time.Now()
	next, err := Read(r.o.File, source)
	if err != nil {
		return err
	}
	commit := func() {}
	var restart []string
	if r.o.Prepare != nil {
		given, err := r.o.Prepare(ctx, &next)
		if err != nil {
			return err
		}
		if given != nil {
			commit = given
		}
	}
	restart = next.keepStarted(r.o.Live.Now())
	commit()
	r.o.Live.Swap(next)
	r.o.Metrics.OK.Set(1)
	r.o.Metrics.Timestamp.Set(float64(time.Now().Unix()))
	r.last = queue.Reload{File: r.o.File, Since: time.Now().UTC(), Restart: restart}
	r.o.Report(r.last)
	r.log.Info("configuration reloaded", obs.KeyFile, r.o.File, obs.KeyCount, len(next.Handlers), obs.KeyDuration,
		time.Since(began).Milliseconds())
	if len(restart) > 0 {
		r.log.Warn("changed, and in force from the next start only", obs.KeyFile, r.o.File, obs.KeySections, strings.Join(restart, " "))
	}
	return nil
}

// refuse reports why the file's content is not in force, once for each content unless always is
// set.
func (r *Reloader) refuse(err error, sum [sha256.Size]byte, always bool) {
	if sum == r.seen && !always {
		return
	}
	r.seen = sum
	r.o.Metrics.OK.Set(0)
	r.last.File, r.last.TriedAt, r.last.Faults = r.o.File, time.Now().UTC(), strings.Split(err.Error(), "\n")
	r.o.Report(r.last)
	r.log.Error("configuration refused; what was in force stays", obs.KeyFile, r.o.File, obs.Error(err))
}

// keepStarted keeps the settings that a process starts with, and returns the sections that differ.
func (c *Config) keepStarted(old *Config) (restart []string) {
	keep := func(name string, next, started any) {
		to, from := reflect.ValueOf(next).Elem(), reflect.ValueOf(started).Elem()
		if !reflect.DeepEqual(to.Interface(), from.Interface()) {
			restart = append(restart, name)
			to.Set(from)
		}
	}
	keep("ledger", &c.Ledger, &old.Ledger)
	keep("blob", &c.Blob, &old.Blob)
	keep("server", &c.Server, &old.Server)
	keep("conductors", &c.Conductors, &old.Conductors)
	before := old.Builder // but for its tokens, which are in force at once
	before.Provisioner.Tokens = c.Builder.Provisioner.Tokens
	keep("builder", &c.Builder, &before)
	if (c.Promoter == nil) != (old.Promoter == nil) { // it decides whether the process has the role
		keep("promoter", &c.Promoter, &old.Promoter)
	}
	if (c.Flow == nil) != (old.Flow == nil) {
		keep("flow", &c.Flow, &old.Flow)
	} else if c.Flow != nil { // the roles of a process are all about one cluster
		before := *c.Flow
		before.Kubeconfig, before.Context = old.Flow.Kubeconfig, old.Flow.Context
		keep("flow", c.Flow, &before)
	}
	return restart
}
