package flowview

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/waybill-dev/waybill/internal/kube"
)

// Times and bounds of a Cache.
const (
	fresh       = 2 * time.Second  // age up to which an answer is given again
	readTimeout = 15 * time.Second // bounds all requests for one answer
	mostAnswers = 1000             // flows whose answers are kept
)

// Cache reads flows for many readers: each answer is read at most once in fresh, for any number of readers. Make it with NewCache.
type Cache struct {
	reader
	platforms *answer[instances]
	all       *answer[[]Flow]

	mu    sync.Mutex
	shown map[[2]string]*answer[Flow] // by namespace and name
}

// NewCache makes a cache over a cluster.
func NewCache(cluster *kube.Cluster) *Cache {
	c := &Cache{platforms: newAnswer[instances](), all: newAnswer[[]Flow](), shown: map[[2]string]*answer[Flow]{}}
	c.reader = reader{cluster, func(ctx context.Context, _ string) (instances, error) {
		return c.platforms.get(ctx, func(ctx context.Context) (instances, error) { return readInstances(ctx, cluster, "") })
	}}
	return c
}

// List returns all flows like the function List.
func (c *Cache) List(ctx context.Context) ([]Flow, error) {
	return c.all.get(ctx, func(ctx context.Context) ([]Flow, error) { return c.list(ctx, "") })
}

// Get returns a flow like the function Get.
func (c *Cache) Get(ctx context.Context, namespace, name string) (Flow, error) {
	return c.answerOf([2]string{namespace, name}).get(ctx, func(ctx context.Context) (Flow, error) { return c.get(ctx, namespace, name) })
}

// Of returns the flow of a service instance, without its conditions and parts. Only one in the namespace of the service instance counts:
// authors of flows elsewhere can write its id too. If there is none, the flow has no name, and its combined
// status is that of the service instance. expected reports whether the log has the service instance, which is not gone.
func (c *Cache) Of(ctx context.Context, namespace, id string, expected bool) (Flow, error) {
	all, err := c.List(ctx)
	if err != nil {
		return Flow{}, err
	}
	for _, f := range all {
		if f.Namespace == namespace && f.ServiceInstance != nil && f.ServiceInstance.ID == id {
			return f, nil
		}
	}
	known, err := c.instances(ctx, "")
	if err != nil {
		return Flow{}, err
	}
	absent := Flow{ServiceInstance: &ServiceInstance{ID: id}}
	combine(&absent, nil, known, expected)
	return absent, nil
}

// answerOf returns the kept answer about a flow, or an empty one that is kept from now on.
func (c *Cache) answerOf(name [2]string) *answer[Flow] {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.shown[name] == nil {
		if len(c.shown) >= mostAnswers {
			clear(c.shown) // each is read again once it is wanted
		}
		c.shown[name] = newAnswer[Flow]()
	}
	return c.shown[name]
}

// answer keeps the result of a read, errors included. Make it with newAnswer.
type answer[T any] struct {
	turn  chan struct{} // has room for the one reader that uses the fields below
	at    time.Time
	value T
	err   error
}

func newAnswer[T any]() *answer[T] { return &answer[T]{turn: make(chan struct{}, 1)} }

// get returns the kept result, or that of a read if it is too old. The read outlives its reader, since others may wait for it.
func (a *answer[T]) get(ctx context.Context, read func(context.Context) (T, error)) (value T, err error) {
	select {
	case a.turn <- struct{}{}:
	case <-ctx.Done():
		return value, context.Cause(ctx)
	}
	defer func() { <-a.turn }()
	if a.at.IsZero() || time.Since(a.at) >= fresh {
		ctx, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), readTimeout,
			fmt.Errorf("the cluster did not answer within %s", readTimeout))
		defer cancel()
		a.value, a.err = read(ctx)
		a.at = time.Now()
	}
	return a.value, a.err
}
