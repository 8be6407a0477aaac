package journal

import (
	"context"

	"github.com/waybill-dev/waybill/internal/pipeline"
)

// Owner is the pipeline that has a resource.
type Owner struct {
	Pipeline string
	// Deployment is the one through which the pipeline keeps a resource that its definition in force no longer has;
	// 0: the definition in force has it.
	Deployment int64
	Status     pipeline.Status // status of Deployment: active, or failed, so that it may be retried
}

// Owners returns the resources of all pipelines but one, with their owners. A pipeline has a resource while its
// definition in force does, and after that as long as a deployment that may still change it is active or may be retried.
// An archived deployment is never retried.
func (j *Journal) Owners(ctx context.Context, except string) (owners map[pipeline.Resource]Owner, err error) {
	err = j.read(ctx, "read who owns resources", func(tx *txn) error {
		owners, err = tx.owners(except)
		return err
	})
	return owners, err
}

// owners returns the same as Owners. It reads heads without locking them, so it waits for no pass. While Define calls
// it no definition can change, since LockHeads lets one transaction at a time store definitions.
func (t *txn) owners(except string) (map[pipeline.Resource]Owner, error) {
	heads, err := t.Heads(nil)
	if err != nil {
		return nil, err
	}
	o := owning{txn: t, heads: map[string]*HeadRow{}, owners: map[pipeline.Resource]Owner{}}
	for i := range heads {
		head := &heads[i]
		if head.Pipeline == except || head.Version == 0 {
			continue
		}
		o.heads[head.Pipeline] = head
		k, err := t.definition(head)
		if err != nil {
			return nil, err
		}
		for _, r := range k.owned() {
			o.owners[r] = Owner{Pipeline: head.Pipeline}
		}
	}
	// Definitions in force come first, for all pipelines: a pipeline that has a resource by its
	// definition is named before one that only keeps it through a deployment.
	for _, head := range o.heads {
		if err := o.pinned(head); err != nil {
			return nil, err
		}
	}
	return o.owners, o.left()
}

// owning collects the owners of resources in one transaction.
type owning struct {
	*txn
	heads  map[string]*HeadRow // by pipeline
	owners map[pipeline.Resource]Owner
}

// add gives a resource an owner, unless it has one.
func (o *owning) add(r pipeline.Resource, d Deployment) {
	if _, owned := o.owners[r]; !owned {
		o.owners[r] = Owner{Pipeline: d.Pipeline, Deployment: d.Number, Status: d.Status}
	}
}

// pinned adds the rows that a pipeline keeps through deployments that stay with an older definition. The error is
// fault.Corrupt if a deployment's definition is missing.
func (o *owning) pinned(head *HeadRow) error {
	k, err := o.definition(head)
	if err != nil {
		return err
	}
	statuses := []pipeline.Status{pipeline.StatusActive}
	if k.definition.Pin {
		statuses = append(statuses, pipeline.StatusFailed)
	}
	// Several deployments may have the same version, which is read once.
	older := map[int]*definitionInForce{head.Version: k}
	for _, status := range statuses {
		some, err := o.Deployments(DeploymentQuery{Pipeline: head.Pipeline, Status: status})
		if err != nil {
			return err
		}
		for _, d := range some {
			k := older[d.Version]
			if k == nil {
				v, err := o.storedVersion(head, d.Version)
				if err != nil {
					return err
				}
				k = newDefinitionInForce(v)
				older[d.Version] = k
			}
			if !k.definition.Pin || d.Archive != "" {
				continue
			}
			for _, r := range k.owned() {
				o.add(r, d)
			}
		}
	}
	return nil
}

// left adds resources that definitions no longer have and a deployment has started: an active one may be changing it
// still, and the newest there may be retried once it has failed.
func (o *owning) left() error {
	started, err := o.Resources(ResourceQuery{})
	if err != nil {
		return err
	}
	for _, s := range started {
		r := pipeline.Resource{Address: s.Address, Service: s.Service}
		if _, owned := o.owners[r]; owned || o.heads[s.Pipeline] == nil {
			continue
		}
		last, err := o.Deployments(DeploymentQuery{Pipeline: s.Pipeline, Number: s.Deployment})
		if err != nil {
			return err
		}
		active, err := o.Deployments(DeploymentQuery{Pipeline: s.Pipeline, Status: pipeline.StatusActive, Before: s.Deployment})
		if err != nil {
			return err
		}
		for _, d := range append(last, active...) {
			if d.Status == pipeline.StatusActive || d.Status == pipeline.StatusFailed && d.Archive == "" {
				o.add(r, d)
			}
		}
	}
	return nil
}
