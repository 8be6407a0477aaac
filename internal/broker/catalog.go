package broker

import (
	"bytes"
	"context"
	"log/slog"
	"maps"
	"slices"
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
	path     string
	handlers func() map[string]Handler
	now      atomic.Pointer[osb.Catalog]
	read     []byte // content in force
	fault    string // last fault of the file that was reported; "": none since it was good
}

// catalogEvery is the time between two looks at the file.
const catalogEvery = 2 * time.Second

// OpenCatalog reads the catalog of a file. Its error is every fault of the file, with its place; then the catalog comes into force once
// the file is right (Watch).
func OpenCatalog(path string, handlers func() map[string]Handler) (*Catalog, error) {
	c := &Catalog{path: path, handlers: handlers}
	_, err := c.reload()
	return c, err
}

// Now returns the catalog in force; nil: there has been none yet.
func (c *Catalog) Now() *osb.Catalog { return c.now.Load() }

// ParseCatalog reads a catalog, and reports handlers that there are not.
func ParseCatalog(path string, content []byte, handlers map[string]Handler) (*osb.Catalog, fault.Problems) {
	catalog, problems := osb.ParseCatalog(path, content)
	if catalog == nil {
		return nil, problems
	}
	known := slices.Sorted(maps.Keys(handlers))
	for _, r := range catalog.References {
		if _, ok := handlers[r.Handler]; !ok {
			problems.Add(fault.Problem{Position: r.At, Code: "value-unknown", Scope: r.Scope, Text: "handler " + `"` + r.Handler + `" not found in server.yaml`,
				Suggestion: fault.Nearest(r.Handler, known)})
		}
	}
	problems.Sort()
	return catalog, problems
}

// Watch puts a changed file in force within seconds, until ctx ends. A file with faults is reported once, and the catalog stays as it is.
func (c *Catalog) Watch(ctx context.Context, log *slog.Logger, metrics *obs.Broker) {
	for loop.Pause(ctx, catalogEvery) {
		changed, err := c.reload()
		if changed {
			log.Info("the catalog has changed", obs.KeyFile, c.path)
		}
		if err == nil {
			c.fault = ""
		} else if text := err.Error(); text != c.fault {
			c.fault = text
			metrics.CatalogFailed()
			log.Warn("the catalog cannot be read; the former one stays", obs.KeyFile, c.path, obs.Error(err))
		}
	}
}

// reload puts the file in force if it differs from the catalog there. One with faults is parsed again by each call: it may wait for a handler.
func (c *Catalog) reload() (changed bool, err error) {
	content, err := file.Read(c.path, osb.CatalogFile)
	if err != nil || bytes.Equal(content, c.read) {
		return false, err
	}
	catalog, problems := ParseCatalog(c.path, content, c.handlers())
	if err := problems.Err(); err != nil {
		return false, err
	}
	c.read = content
	c.now.Store(catalog)
	return true, nil
}
