package provisioner

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/api/pkg/stdcopy"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	provisionerv1 "github.com/waybill-dev/waybill/api/provisioner/v1"
	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/command"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/loop"
	"github.com/waybill-dev/waybill/internal/obs"
	"github.com/waybill-dev/waybill/internal/results"
)

// deletedMark marks the name of a worker after a request to delete it, in front of the time in seconds: the labels of
// a container cannot be changed.
const deletedMark = ".deleted-"

// workerContainer is a worker's container as the Engine has it.
type workerContainer struct{ container.InspectResponse }

func (c *workerContainer) labels() map[string]string { return c.Config.Labels }

func (c *workerContainer) buildID() int64 {
	id, _ := strconv.ParseInt(c.labels()[dockerBuildLabel], 10, 64) // 0: not one of ours
	return id
}

// began reports whether the container was ever started.
func (c *workerContainer) began() bool { return c.State.Status != container.StateCreated }

// alive reports whether the worker runs.
func (c *workerContainer) alive() bool { return c.State.Running }

// deletedAt returns when the deletion was requested.
func (c *workerContainer) deletedAt() time.Time {
	_, digits, _ := strings.Cut(c.Name, deletedMark)
	seconds, err := strconv.ParseInt(digits, 10, 64)
	if err != nil {
		return time.Time{}
	}
	return time.Unix(seconds, 0)
}

// endedAt returns when the worker ended, else when its container was made.
func (c *workerContainer) endedAt() time.Time {
	if at := timeOf(c.State.FinishedAt); !at.IsZero() {
		return at
	}
	return timeOf(c.Created)
}

// timeOf reads a time of the Engine, which has the year 1 for none.
func timeOf(text string) time.Time {
	at, err := time.Parse(time.RFC3339Nano, text)
	if err != nil || at.Year() <= 1 {
		return time.Time{}
	}
	return at.UTC()
}

// inspect returns a worker's container. One that does not exist, or is not a worker of this provisioner, is fault.NotFound.
func (d *Docker) inspect(ctx context.Context, id string) (*workerContainer, error) {
	found, err := d.Engine.API().ContainerInspect(ctx, id, client.ContainerInspectOptions{})
	switch {
	case errdefs.IsNotFound(err):
		return nil, fault.New(fault.NotFound, "worker %s not found", id)
	case err != nil:
		return nil, fault.New(fault.Unavailable, "look at worker %s: %w", id, err)
	}
	c := &workerContainer{found.Container}
	if c.Config == nil || c.State == nil || c.buildID() == 0 || !slices.Contains(d.owners, c.labels()[dockerOwnerLabel]) {
		return nil, fault.New(fault.NotFound, "container %s is not a worker", id)
	}
	return c, nil
}

// containers returns the containers of all workers that match labels, deleted ones included. Workers that are removed
// in the meantime are left out.
func (d *Docker) containers(ctx context.Context, labels ...string) ([]*workerContainer, error) {
	filters := make(client.Filters).Add("label", append(labels, dockerBuildLabel)...)
	listed, err := d.Engine.API().ContainerList(ctx, client.ContainerListOptions{All: true, Filters: filters})
	switch {
	case err != nil:
		return nil, fault.New(fault.Unavailable, "list the workers: %w", err)
	case len(listed.Items) > mostWorkers:
		return nil, fault.New(fault.Unavailable, "list the workers: the Engine has more than %d", mostWorkers)
	}
	var all []*workerContainer
	var errs []error
	for _, item := range listed.Items {
		c, err := d.inspect(ctx, item.ID)
		if err == nil {
			all = append(all, c)
		} else if !fault.Is(err, fault.NotFound) {
			errs = append(errs, err)
		}
	}
	return all, errors.Join(errs...)
}

// find returns the container of a build's worker; nil if there is none.
func (d *Docker) find(ctx context.Context, instance string, buildID int64) (*workerContainer, error) {
	all, err := d.containers(ctx, dockerInstanceLabel+"="+instance, dockerBuildLabel+"="+strconv.FormatInt(buildID, 10))
	if err != nil || len(all) == 0 {
		return nil, err
	}
	return all[0], nil
}

// List returns the workers that were started and not removed.
func (d *Docker) List(ctx context.Context) ([]provisionerv1.Worker, error) {
	all, err := d.containers(ctx)
	var workers []provisionerv1.Worker
	for _, c := range all {
		if c.deletedAt().IsZero() || c.alive() {
			workers = append(workers, d.worker(ctx, c))
		}
	}
	return workers, err
}

// worker describes a worker as its container is now.
func (d *Docker) worker(ctx context.Context, c *workerContainer) provisionerv1.Worker {
	labels := c.labels()
	w := provisionerv1.Worker{WorkerID: c.ID, Name: containerName(labels[dockerInstanceLabel], c.buildID()),
		BuildID: c.buildID(), Project: labels[dockerProjectLabel],
		Instance: labels[dockerInstanceLabel], Key: d.keyOf(c).Number, CreatedAt: timeOf(c.Created),
		StartedAt: timeOf(c.State.StartedAt), DeletedAt: c.deletedAt()}
	switch {
	case !c.began():
		w.Status, w.Reason = string(build.WorkerPending), "its container is not started yet"
	case c.State.Paused, c.State.Restarting:
		w.Status, w.Reason = string(build.WorkerUnknown), "its container is "+string(c.State.Status)
	case c.alive():
		w.Status, w.Address = string(build.WorkerRunning), d.address(c)
		if w.Address == "" {
			w.Status, w.Reason = string(build.WorkerPending), "its container has no address yet"
		}
	default:
		w.Status, w.Reason = string(build.WorkerEnded), d.endOf(ctx, c)
	}
	return w
}

// address returns where readers reach a worker; "": nowhere yet.
func (d *Docker) address(c *workerContainer) string {
	settings := c.NetworkSettings
	if settings == nil {
		return ""
	}
	if d.Network != "" {
		if at := settings.Networks[d.Network]; at != nil && at.IPAddress.IsValid() {
			return "http://" + net.JoinHostPort(at.IPAddress.String(), strconv.Itoa(dockerPort))
		}
		return ""
	}
	for port, bindings := range settings.Ports {
		if port.Num() != dockerPort || len(bindings) == 0 {
			continue
		}
		host := d.Advertise
		if host == "" {
			host = bindings[0].HostIP.String()
		}
		return "http://" + net.JoinHostPort(host, bindings[0].HostPort)
	}
	return ""
}

// endOf returns how a worker ended.
func (d *Docker) endOf(ctx context.Context, c *workerContainer) string {
	switch {
	case d.taken(ctx, c):
		return "the worker has ended, and its results were taken"
	case c.State.OOMKilled:
		return fmt.Sprintf("the worker was killed: it needed more memory than it may use (%d bytes; builder.provisioner.docker.memory)", d.Memory)
	case c.State.ExitCode == 137 && d.Memory > 0:
		// The Engine learns of a kill for memory apart from the container's end, and may miss it.
		return fmt.Sprintf(
			"the worker was killed; perhaps it needed more memory than it may use (%d bytes; builder.provisioner.docker.memory)", d.Memory)
	case c.State.ExitCode == 137:
		return "the worker was killed"
	}
	reason := fmt.Sprintf("the worker has ended with exit status %d, and its results were not taken", c.State.ExitCode)
	if text := d.lastLines(ctx, c); text != "" {
		reason += ": " + text
	}
	return reason
}

// Bounds of quoting an ended worker.
const (
	mostLastLines = "5"
	mostLastBytes = 500
)

// lastLines returns the last lines of a worker's output.
func (d *Docker) lastLines(ctx context.Context, c *workerContainer) string {
	log, err := d.Engine.API().ContainerLogs(ctx, c.ID, client.ContainerLogsOptions{ShowStderr: true, Tail: mostLastLines})
	if err != nil {
		return ""
	}
	defer log.Close()
	out := &command.Tail{Limit: mostLastBytes}
	_, _ = stdcopy.StdCopy(out, out, log) // what can be read is shown
	text, _ := out.Text()
	return strings.TrimSpace(build.Printable(text, nil))
}

// taken reports whether a reader has acknowledged everything.
func (d *Docker) taken(ctx context.Context, c *workerContainer) bool {
	_, err := d.Engine.API().ContainerStatPath(ctx, c.ID,
		client.ContainerStatPathOptions{Path: dockerHome + "/" + resultsDir + "/" + results.TakenFile})
	return err == nil
}

// Delete asks the worker to end, once: a second SIGTERM would end it before its results are taken. Run removes its container.
func (d *Docker) Delete(ctx context.Context, workerID string, force bool) error {
	c, err := d.inspect(ctx, workerID)
	if fault.Is(err, fault.NotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	defer loop.Poke(d.woken)
	api := d.Engine.API()
	asked := !c.deletedAt().IsZero()
	if !asked { // before the signal: dying in between leaves the kill after the grace
		name := strings.TrimPrefix(c.Name, "/") + deletedMark + strconv.FormatInt(time.Now().Unix(), 10)
		if _, err := api.ContainerRename(ctx, c.ID, client.ContainerRenameOptions{NewName: name}); err != nil && !errdefs.IsNotFound(err) {
			return fault.New(fault.Unavailable, "note that worker %s is deleted: %w", workerID, err)
		}
	}
	switch {
	case !c.alive():
		return nil
	case force:
		return d.signal(ctx, c, "SIGKILL")
	case !asked:
		return d.signal(ctx, c, "SIGTERM")
	}
	return nil
}

// signal sends a signal to a worker, unless that has ended.
func (d *Docker) signal(ctx context.Context, c *workerContainer, name string) error {
	_, err := d.Engine.API().ContainerKill(ctx, c.ID, client.ContainerKillOptions{Signal: name})
	if err != nil && !errdefs.IsNotFound(err) && !errdefs.IsConflict(err) { // a conflict: it does not run
		return fault.New(fault.Unavailable, "end worker %s: %w", c.ID, err)
	}
	return nil
}

// Run sends snapshots to the workers that wait for them, kills deleted workers that did not end in time, and removes
// the leftovers of ended workers and their steps. It returns when ctx ends; the workers run on.
func (d *Docker) Run(ctx context.Context) error {
	defer d.Snapshots.Wait()
	for ctx.Err() == nil {
		d.runOnce(ctx, time.Now())
		pauseUntil(ctx, lookEvery, d.woken)
	}
	return nil
}

// runOnce looks at every worker.
func (d *Docker) runOnce(ctx context.Context, now time.Time) {
	all, err := d.containers(ctx)
	if err != nil {
		if ctx.Err() == nil {
			d.Log.Warn("workers cannot be looked at", obs.Error(err))
		}
		return
	}
	d.Snapshots.Send(ctx, d.targets(all))
	known := map[string]bool{}
	for _, c := range all {
		known[c.ID] = true
		if err := d.tidy(ctx, c, now); err != nil && ctx.Err() == nil {
			d.Log.Warn("worker cannot be ended or removed", obs.KeyBuildID, c.buildID(), obs.KeyWorkerID, c.ID, obs.Error(err))
		}
	}
	maps.DeleteFunc(d.swept, func(id string, _ bool) bool { return !known[id] })
}

// targets returns the workers that are sent a snapshot.
func (d *Docker) targets(all []*workerContainer) (targets []Target) {
	for _, c := range all {
		labels, address := c.labels(), d.address(c)
		if c.alive() && c.deletedAt().IsZero() && labels[dockerSnapshotLabel] != "" && address != "" {
			targets = append(targets, Target{ID: c.ID, Address: address, Snapshot: labels[dockerSnapshotLabel],
				Token: d.keyOf(c).WorkerToken(labels[dockerInstanceLabel], c.buildID(), labels[dockerNonceLabel])})
		}
	}
	return targets
}

// tidy kills or removes a worker if it is time.
func (d *Docker) tidy(ctx context.Context, c *workerContainer, now time.Time) error {
	deleted := c.deletedAt()
	switch {
	case c.alive() && !deleted.IsZero() && now.Sub(deleted) > d.Grace+killAfter:
		d.Log.Warn("worker killed: it did not end in time", obs.KeyBuildID, c.buildID(), obs.KeyWorkerID, c.ID)
		return d.signal(ctx, c, "SIGKILL")
	case c.alive():
		return nil
	}
	if c.began() && !d.swept[c.ID] {
		if err := d.Engine.Sweep(ctx, c.Config.Hostname); err != nil {
			return err
		}
		d.swept[c.ID] = true
	}
	if !deleted.IsZero() && (!c.began() || d.taken(ctx, c)) || now.Sub(c.endedAt()) > d.Keep {
		return d.remove(ctx, c)
	}
	return nil
}

// remove removes the container of a worker, and the volume with its results.
func (d *Docker) remove(ctx context.Context, c *workerContainer) error {
	_, err := d.Engine.API().ContainerRemove(ctx, c.ID, client.ContainerRemoveOptions{Force: true, RemoveVolumes: true})
	if err != nil && !errdefs.IsNotFound(err) && !errdefs.IsConflict(err) { // a conflict: it is being removed
		return fault.New(fault.Unavailable, "remove worker %s: %w", c.ID, err)
	}
	delete(d.swept, c.ID)
	d.Log.Info("worker removed", obs.KeyBuildID, c.buildID(), obs.KeyWorkerID, c.ID)
	return nil
}
