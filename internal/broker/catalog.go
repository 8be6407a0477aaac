package broker

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/file"
	"github.com/waybill-dev/waybill/internal/loop"
	"github.com/waybill-dev/waybill/internal/obs"
	"github.com/waybill-dev/waybill/internal/osb"
)

// Catalog is the catalog of a file, which is read again when it changes.
type Catalog struct {
	path  string
	offer func() Offer
	now   atomic.Pointer[osb.Catalog]
	read  []byte // content in force
	fault string // last fault of the file that was reported; "": none since it was good
}

// catalogEvery is the time between two looks at the file.
const catalogEvery = 2 * time.Second

// OpenCatalog reads the catalog of a file. Its error is every fault of the file, with its place; then the catalog comes into force once
// the file is right (Watch).
func OpenCatalog(path string, offer func() Offer) (*Catalog, error) {
	c := &Catalog{path: path, offer: offer}
	_, err := c.reload()
	if err != nil {
		c.fault = err.Error() // the caller reports it
	}
	return c, err
}

// Now returns the catalog in force; nil: there has been none yet.
func (c *Catalog) Now() *osb.Catalog { return c.now.Load() }

// ParseCatalog reads a catalog, and reports plans whose handler or cluster server.yaml does not have.
func ParseCatalog(path string, content []byte, offer Offer) (*osb.Catalog, fault.Problems) {
	catalog, problems := osb.ParseCatalog(path, content)
	if catalog == nil {
		return nil, problems
	}
	known := slices.Sorted(maps.Keys(offer.Handlers))
	for _, r := range catalog.References {
		_, has := offer.Handlers[r.Handler]
		switch {
		case r.Handler == "" && !offer.Flows:
			problems.Add(fault.Problem{Position: r.At, Code: "section-missing", Scope: r.Scope,
				Text: "the plan is a flow, and server.yaml has no section flow, which names its cluster"})
		case r.Handler != "" && !has:
			problems.Add(fault.Problem{Position: r.At, Code: "value-unknown", Scope: r.Scope, Text: "handler " + `"` + r.Handler + `" not found in server.yaml`,
				Suggestion: fault.Nearest(r.Handler, known)})
		}
	}
	problems.Sort()
	return catalog, problems
}

// Ready returns an error until there is a catalog.
func (c *Catalog) Ready() error {
	if c.Now() == nil {
		return errors.New("the catalog of the service broker has faults")
	}
	return nil
}

// Watcher is informed about a catalog that is watched.
type Watcher struct {
	Log     *slog.Logger
	Metrics *obs.Broker
	Report  func(err error) // gets each fault of the file once, and nil when it is right again; nil: none is reported
}

// Watch puts a changed file in force within seconds, until ctx ends. A file with faults is reported once, and the catalog stays as it is.
func (c *Catalog) Watch(ctx context.Context, w Watcher) {
	for loop.Pause(ctx, catalogEvery) {
		before := c.Now()
		changed, err := c.reload()
		if changed {
			w.Log.Info("the catalog has changed", obs.KeyFile, c.path, obs.KeyChanges, strings.Join(c.Now().Changes(before), ", "))
		}
		text := ""
		if err != nil {
			text = err.Error()
		}
		if text == c.fault {
			continue
		}
		c.fault = text
		switch {
		case err != nil:
			w.Metrics.CatalogFailed()
			w.Log.Warn("the catalog cannot be read; the former one stays", obs.KeyFile, c.path, obs.Error(err))
		case !changed:
			w.Log.Info("the catalog is again as it was before its fault", obs.KeyFile, c.path)
		}
		if w.Report != nil {
			w.Report(err)
		}
	}
}

// reload puts the file in force if it differs from the catalog there. One with faults is parsed again by each call: it may wait for a handler.
func (c *Catalog) reload() (changed bool, err error) {
	content, err := file.Read(c.path, osb.CatalogFile)
	if err != nil || bytes.Equal(content, c.read) {
		return false, err
	}
	catalog, problems := ParseCatalog(c.path, content, c.offer())
	if err := problems.Err(); err != nil {
		return false, err
	}
	c.read = content
	c.now.Store(catalog)
	return true, nil
}
