package docker

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"time"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/mount"
	"github.com/moby/moby/api/types/network"
	"github.com/moby/moby/client"

	"github.com/waybill-dev/waybill/internal/attempt"
	"github.com/waybill-dev/waybill/internal/build"
)

// commandsFile has the commands of a step, instead of its arguments, which the Engine shows to all its users.
const commandsFile = "waybill-commands"

// removal bounds the removal of an attempt's objects.
const removal = time.Minute

// containerOf describes the container of the step.
func (s *step) containerOf() client.ContainerCreateOptions {
	spec := s.run.Step.Spec
	argv := spec.Argv
	if s.loads() {
		argv = spec.Build.ArgvTo(imageFile)
	}
	if spec.Secret {
		argv = []string{spec.Argv[0], path.Join(path.Dir(workdir), commandsFile)}
	}
	init := true // the first process of a container ignores SIGTERM
	host := &container.HostConfig{
		Init:      &init,
		LogConfig: wholeLog(),
		Mounts: []mount.Mount{{Type: mount.TypeVolume, Target: workdir,
			VolumeOptions: &mount.VolumeOptions{NoCopy: true, Labels: s.labels()}}},
		Resources: container.Resources{NanoCPUs: spec.Limits.CPU * 1e6, Memory: spec.Limits.Memory, MemorySwap: spec.Limits.Memory},
	}
	if spec.Build != nil && spec.Build.Address == "" { // BuildKit without root makes namespaces of its own
		host.SecurityOpt = []string{"seccomp=unconfined", "apparmor=unconfined"}
	}
	return client.ContainerCreateOptions{
		Name: s.name("step"),
		Config: &container.Config{
			Image: spec.Image, Entrypoint: argv[:1], Cmd: argv[1:], WorkingDir: workdir,
			Env: slices.Concat(s.Environ, s.environ(), attempt.Environ(s.run, workdir)), Labels: s.labels(),
		},
		HostConfig:       host,
		NetworkingConfig: s.joined(host),
	}
}

// joined puts a container into the network of the step, if that has one, under names.
func (s *step) joined(host *container.HostConfig, names ...string) *network.NetworkingConfig {
	if s.network == "" {
		return nil
	}
	host.NetworkMode = container.NetworkMode(s.network)
	return &network.NetworkingConfig{EndpointsConfig: map[string]*network.EndpointSettings{s.network: {Aliases: names}}}
}

// wholeLog keeps everything that a container prints, whatever the Engine's own configuration is.
func wholeLog() container.LogConfig {
	return container.LogConfig{Type: "json-file",
		Config: map[string]string{"max-size": "1000g", "max-file": "1", "compress": "false", "mode": "blocking"}}
}

// name returns a name that no other attempt has, and that the same attempt finds again.
func (s *step) name(part string) string {
	return fmt.Sprintf("waybill-%s-%d-%d-%s", s.worker.id, s.run.Step.ID, s.run.Attempt, part)
}

func (s *step) labels() map[string]string {
	labels := maps.Clone(s.worker.labels())
	labels[labelBuild] = s.run.Build
	labels[labelStep] = strconv.Itoa(s.run.Step.ID) + " " + s.run.Step.Path()
	labels[labelAttempt] = strconv.Itoa(s.run.Attempt)
	return labels
}

// create makes a container. One that was made by an earlier call whose answer was lost is taken.
func (s *step) create(ctx context.Context, c client.ContainerCreateOptions) (string, error) {
	id, err := persist(ctx, func(ctx context.Context) (string, error) {
		made, err := s.engine.api.ContainerCreate(ctx, c)
		if errdefs.IsConflict(err) {
			found, err := s.engine.api.ContainerInspect(ctx, c.Name, client.ContainerInspectOptions{})
			return found.Container.ID, err
		}
		return made.ID, err
	})
	if err != nil {
		return "", fmt.Errorf("create the container of %s: %w", s.run.Step.Path(), err)
	}
	return id, nil
}

// execute starts the container and hands its output on until it has ended.
func (s *step) execute(ctx context.Context) (build.Exit, error) {
	api := s.engine.api
	out := newOutputs(api, s.id, s.sink, s.run.Mask)
	watch, stop := context.WithCancelCause(context.WithoutCancel(ctx)) // the output and the end are awaited after a cancel too
	defer stop(nil)
	attached, err := out.attach(watch)
	if err != nil {
		return build.Exit{}, fmt.Errorf("attach to %s: %w", s.run.Step.Path(), err)
	}
	if err := start(ctx, api, s.id); err != nil {
		attached.Close()
		return build.Exit{}, startError(s.run.Step.Path(), err)
	}
	s.began = true
	end := awaitEnd(watch, api, s.id)
	printed := make(chan error, 1)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		err := out.follow(watch, attached, end.exited)
		if err != nil {
			cancel(err) // the log is too large, or the disk is full: the step must end
		}
		printed <- err
	}()
	s.endWith(ctx, watch, end.exited, stop)
	<-end.exited
	s.ended = end.err == nil
	if err := errors.Join(<-printed, end.err); err != nil {
		return build.Exit{}, fmt.Errorf("run %s: %w", s.run.Step.Path(), err)
	}
	return s.exitOf(watch, end.code)
}

// endWith waits for the end of the container. When ctx ends before, the container gets SIGTERM, and SIGKILL after the grace.
func (s *step) endWith(ctx, watch context.Context, exited <-chan struct{}, stop context.CancelCauseFunc) {
	select {
	case <-exited:
		return
	case <-ctx.Done():
	}
	s.kill(watch, "SIGTERM")
	if endedWithin(watch, exited, s.Grace) {
		return
	}
	s.kill(watch, "SIGKILL")
	if !endedWithin(watch, exited, removal) {
		stop(errors.New("the Engine has not ended the container"))
	}
}

// kill sends a signal. A container that has ended, or an Engine that does not answer, shows in what follows.
func (s *step) kill(ctx context.Context, signal string) {
	ctx, cancel := context.WithTimeoutCause(ctx, removal, fmt.Errorf("the Engine has not sent %s within %s", signal, removal))
	defer cancel()
	_, _ = persist(ctx, func(ctx context.Context) (client.ContainerKillResult, error) {
		return s.engine.api.ContainerKill(ctx, s.id, client.ContainerKillOptions{Signal: signal})
	})
}

func start(ctx context.Context, api *client.Client, id string) error {
	_, err := persist(ctx, func(ctx context.Context) (client.ContainerStartResult, error) {
		return api.ContainerStart(ctx, id, client.ContainerStartOptions{})
	})
	return err
}

// startError returns the error for a container that does not start. A refusal of the Engine is the step's fault: a
// program or a user that the image does not have.
func startError(name string, err error) error {
	if errdefs.IsInvalidArgument(err) || errdefs.IsNotFound(err) {
		return &build.StepError{Text: fmt.Sprintf("start %s: %v", name, err)}
	}
	return fmt.Errorf("start %s: %w", name, err)
}

// ending describes the end of a container; the fields are set when exited is closed.
type ending struct {
	exited chan struct{}
	code   int
	err    error // the end is unknown
}

// awaitEnd waits for the end of a container that has been started.
func awaitEnd(ctx context.Context, api *client.Client, id string) *ending {
	e := &ending{exited: make(chan struct{})}
	go func() {
		defer close(e.exited)
		e.code, e.err = persist(ctx, func(ctx context.Context) (int, error) {
			waiting := api.ContainerWait(ctx, id, client.ContainerWaitOptions{Condition: container.WaitConditionNotRunning})
			select {
			case end := <-waiting.Result:
				if end.Error != nil {
					return 0, errors.New(end.Error.Message)
				}
				return int(end.StatusCode), nil
			case err := <-waiting.Error:
				return 0, err
			}
		})
	}()
	return e
}

// exitOf explains an exit status with the Engine's knowledge.
func (s *step) exitOf(ctx context.Context, code int) (build.Exit, error) {
	if code == 0 {
		return build.Exit{}, nil
	}
	found, err := persist(ctx, func(ctx context.Context) (client.ContainerInspectResult, error) {
		return s.engine.api.ContainerInspect(ctx, s.id, client.ContainerInspectOptions{})
	})
	if err != nil {
		return build.Exit{}, fmt.Errorf("run %s: its end is unknown: %w", s.run.Step.Path(), err)
	}
	exit := build.Exit{Code: code}
	if state := found.Container.State; state != nil && state.OOMKilled {
		exit.Reason = attempt.OutOfMemory(s.run.Step.Spec.Limits.Memory)
	}
	return exit, nil
}

// end ends running containers, and has everything removed that the attempt has made in the Engine. That is not waited
// for: the next step can begin in the meantime.
func (s *step) end(ctx context.Context) {
	if s.began && !s.ended {
		s.kill(ctx, "SIGKILL")
	}
	within, cancel := context.WithTimeoutCause(ctx, removal, fmt.Errorf("the Engine has not ended the services within %s", removal))
	defer cancel()
	for _, svc := range s.services {
		if svc.finish(within, s.engine.api) {
			// the step's end does not depend on it
			_ = s.sink.Note(fmt.Sprintf("service %s ended before the step did, exit status %d", svc.Name, svc.end.code))
		}
	}
	s.removals.Go(func() {
		if err := s.remove(ctx); err != nil {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.remarks = append(s.remarks,
				fmt.Sprintf("what step %s made in the Docker Engine is not removed; the next build does so: %v", s.run.Step.Path(), err))
		}
	})
}

func (s *step) remove(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, removal, fmt.Errorf("the Engine has not removed everything within %s", removal))
	defer cancel()
	err := removeContainer(ctx, s.engine.api, s.name("step"))
	for _, svc := range s.services {
		err = errors.Join(err, removeContainer(ctx, s.engine.api, svc.id))
	}
	volumes := make(client.Filters).Add("label", labelWorker+"="+s.worker.id, labelStep+"="+s.labels()[labelStep],
		labelAttempt+"="+strconv.Itoa(s.run.Attempt))
	// others have removed the container
	err = errors.Join(err, removeVolumes(ctx, s.engine.api, volumes, func(map[string]string) bool { return true }))
	if s.network != "" {
		err = errors.Join(err, removeNetwork(ctx, s.engine.api, s.network))
	}
	return err
}

func removeContainer(ctx context.Context, api *client.Client, id string) error {
	_, err := persist(ctx, func(ctx context.Context) (client.ContainerRemoveResult, error) {
		out, err := api.ContainerRemove(ctx, id, client.ContainerRemoveOptions{Force: true, RemoveVolumes: true})
		if errdefs.IsConflict(err) { // it is being removed
			err = awaitRemoval(ctx, api, id)
		}
		return out, err
	})
	if errdefs.IsNotFound(err) {
		return nil
	}
	return err
}

func awaitRemoval(ctx context.Context, api *client.Client, id string) error {
	waiting := api.ContainerWait(ctx, id, client.ContainerWaitOptions{Condition: container.WaitConditionRemoved})
	select {
	case <-waiting.Result:
		return nil
	case err := <-waiting.Error:
		return err
	}
}

// removeVolumes removes the selected volumes that want reports by their labels.
func removeVolumes(ctx context.Context, api *client.Client, of client.Filters, want func(labels map[string]string) bool) error {
	found, err := persist(ctx, func(ctx context.Context) (client.VolumeListResult, error) {
		return api.VolumeList(ctx, client.VolumeListOptions{Filters: of})
	})
	for _, v := range found.Items {
		if !want(v.Labels) {
			continue
		}
		if _, gone := api.VolumeRemove(ctx, v.Name, client.VolumeRemoveOptions{Force: true}); !errdefs.IsNotFound(gone) {
			err = errors.Join(err, gone)
		}
	}
	return err
}

func removeNetwork(ctx context.Context, api *client.Client, id string) error {
	_, err := persist(ctx, func(ctx context.Context) (client.NetworkRemoveResult, error) {
		return api.NetworkRemove(ctx, id, client.NetworkRemoveOptions{})
	})
	if errdefs.IsNotFound(err) {
		return nil
	}
	return err
}
