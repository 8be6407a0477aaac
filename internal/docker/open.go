package docker

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/moby/moby/client"
)

// defaultSocket is the path of an Engine's socket on its own machine.
const defaultSocket = "/var/run/docker.sock"

// Open returns the Engine at an address such as unix:///var/run/docker.sock, "": the one that DOCKER_HOST names, else that of this
// computer. It does not wait for an answer, so it knows no version.
func Open(host string) (*Engine, error) {
	to := client.FromEnv
	if host != "" {
		to = client.WithHost(host)
	}
	api, err := client.New(to)
	if err != nil {
		return nil, fmt.Errorf("connect to the Docker Engine: %w", err)
	}
	return &Engine{OS: "linux", api: api}, nil
}

// API returns the client of the Engine.
func (e *Engine) API() *client.Client { return e.api }

// Socket returns the path of the Engine's socket on the Engine's machine.
func (e *Engine) Socket() string {
	if path, local := strings.CutPrefix(e.api.DaemonHost(), "unix://"); local {
		return path
	}
	return defaultSocket
}

// Pull pulls an image with the credentials of the docker command's user.
func (e *Engine) Pull(ctx context.Context, name string) error {
	auth, _ := credentials(ctx, name) // without credentials: the image may be public
	messages, err := e.api.ImagePull(ctx, name, client.ImagePullOptions{RegistryAuth: auth})
	if err != nil {
		return fmt.Errorf("pull image %s: %w", name, err)
	}
	for message, err := range messages.JSONMessages(ctx) {
		if err == nil && message.Error != nil {
			err = message.Error
		}
		if err != nil {
			return fmt.Errorf("pull image %s: %w", name, err)
		}
	}
	return nil
}

// Sweep removes the containers, networks and volumes of steps whose worker ran on a host of this name. The worker must have ended.
func (e *Engine) Sweep(ctx context.Context, host string) error {
	ours := func(labels map[string]string) bool { return strings.HasPrefix(labels[labelInstance], host+"/") }
	every := make(client.Filters).Add("label", labelInstance)
	containers, err := e.api.ContainerList(ctx, client.ContainerListOptions{All: true, Filters: every})
	if err != nil {
		return fmt.Errorf("list the containers of steps: %w", err)
	}
	var errs []error
	for _, c := range containers.Items {
		if ours(c.Labels) {
			errs = append(errs, removeContainer(ctx, e.api, c.ID))
		}
	}
	networks, err := e.api.NetworkList(ctx, client.NetworkListOptions{Filters: every})
	errs = append(errs, err)
	for _, n := range networks.Items {
		if ours(n.Labels) {
			errs = append(errs, removeNetwork(ctx, e.api, n.ID))
		}
	}
	return errors.Join(append(errs, removeVolumes(ctx, e.api, every, ours))...)
}
