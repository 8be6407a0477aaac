package controller

import (
	"context"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coordination "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/klog/v2"
)

// lease is the name of the Lease by which instances elect the one that works.
const lease = "waybill-flow"

// lead has this instance work while it leads, until ctx ends.
func (c *Controller) lead(ctx context.Context) error {
	defer c.cfg.Metrics.Lead(c.census)()
	if !c.cfg.Elect {
		c.begin()
		<-ctx.Done()
		return nil
	}
	leases, err := coordination.NewForConfig(c.cfg.Cluster.Config())
	if err != nil {
		return fmt.Errorf("make a client of Leases: %w", err)
	}
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: &resourcelock.LeaseLock{
			LeaseMeta:  metav1.ObjectMeta{Namespace: c.cfg.Cluster.Namespace, Name: lease},
			Client:     leases,
			LockConfig: resourcelock.ResourceLockConfig{Identity: c.cfg.Identity},
		},
		LeaseDuration:   15 * time.Second,
		RenewDeadline:   10 * time.Second,
		RetryPeriod:     2 * time.Second,
		ReleaseOnCancel: true,
		Name:            lease,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(context.Context) {
				c.log.Info("this instance leads")
				c.begin()
			},
			OnStoppedLeading: func() { c.leads.Store(false) },
		},
	})
	if err != nil {
		return fmt.Errorf("elect a leader: %w", err)
	}
	logged := klog.NewContext(ctx, logr.FromSlogHandler(c.log.Handler())) // else it writes lines of its own beside the log
	for ctx.Err() == nil {
		elector.Run(logged)
	}
	return nil
}

// begin has this instance handle all flows and shared objects, and later changes.
func (c *Controller) begin() {
	c.leads.Store(true)
	for _, one := range c.flows.list() {
		c.queue.Add(nameOf(one))
	}
	c.sweepAll()
}
