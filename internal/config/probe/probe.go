// Package probe searches for the things that a configuration names and only the world can confirm: secrets, hosts,
// clusters and their kinds, queues, the bucket. There is a file for each kind of thing. A probe reads and changes nothing.
package probe

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/waybill-dev/waybill/internal/config"
	"github.com/waybill-dev/waybill/internal/document"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/yamltree"
)

// The codes of problems that a sound file may still have.
const (
	Missing     = "missing"     // an answer came: the thing does not exist, or this account may not use it
	Unreachable = "unreachable" // no answer came; a later probe may succeed
)

// patience bounds one probe.
const patience = 10 * time.Second

// All checks everything that a sound file names, all at once, and returns a problem for each thing not found.
func All(ctx context.Context, path string, source []byte, cfg config.Config) fault.Problems {
	root, _ := yamltree.Parse(path, source, len(source)) // config.Check has reported its faults
	l := &looker{root: root}
	if strings.HasPrefix(cfg.Blob.URL, "s3://") {
		l.look(ctx, []string{"blob", "url"}, func(ctx context.Context) error { return bucket(ctx, cfg.Blob.URL) })
	}
	for name, h := range cfg.Handlers {
		at := []string{"handlers", name}
		l.secrets(ctx, at, h)
		switch {
		case h.Request != nil:
			l.look(ctx, append(at, "request", "url"), func(ctx context.Context) error { return host(ctx, h) })
		case h.Argo != nil:
			l.cluster(ctx, at, cfg, h)
		case h.Cirrus != nil:
			l.cirrus(ctx, at, cfg, h)
		}
	}
	l.flowKinds(ctx, cfg)
	l.all.Wait()
	return l.problems
}

// looker runs probes side by side and gathers their problems.
type looker struct {
	root *document.Node
	all  sync.WaitGroup

	mu       sync.Mutex
	problems fault.Problems
}

// look runs one probe. Its problem gets the position of path in the file.
func (l *looker) look(ctx context.Context, path []string, probe func(context.Context) error) {
	path = slices.Clone(path)
	l.all.Go(func() {
		ctx, stop := context.WithTimeoutCause(ctx, patience, fmt.Errorf("no answer within %s", patience))
		defer stop()
		err := probe(ctx)
		if err == nil {
			return
		}
		p := fault.Problem{Position: positionOf(l.root, path), Code: Unreachable, Scope: scopeOf(path), Text: inOneLine(err.Error())}
		if _, ok := errors.AsType[notThere](err); ok {
			p.Code = Missing
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		l.problems = append(l.problems, p)
	})
}

// notThere is an error that no later probe corrects: something must be changed first.
type notThere struct{ error }

func (n notThere) Unwrap() error { return n.error }

// absent marks an error as notThere.
func absent(err error) error {
	if err == nil {
		return nil
	}
	return notThere{err}
}

// positionOf returns the position of a path in a file, or that of its nearest parent.
func positionOf(n *document.Node, path []string) fault.Position {
	for _, key := range path {
		next := n.Get(key)
		if i, err := strconv.Atoi(key); err == nil && i < len(n.Items) {
			next = n.Items[i]
		}
		if next == nil {
			break
		}
		n = next
	}
	return n.At
}

// scopeOf returns a path in the form that problems of the file have: handlers.notify.secrets[1].
func scopeOf(path []string) string {
	scope := ""
	for _, key := range path {
		if i, err := strconv.Atoi(key); err == nil {
			scope = document.Index(scope, i)
			continue
		}
		scope = strings.TrimPrefix(scope+"."+key, ".")
	}
	return scope
}

// inOneLine returns a text without line breaks: a problem is one line.
func inOneLine(text string) string { return strings.Join(strings.Fields(text), " ") }
