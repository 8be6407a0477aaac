package docker

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/moby/moby/api/pkg/stdcopy"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"github.com/waybill-dev/waybill/internal/build"
)

// Whether a service listens is read from the kernel's table of sockets in the service's own network. That needs no route to the
// container, which a remote Engine or Docker Desktop does not give, no further image, and no connection, which many servers would
// complain of. The table is printed by cat in the service's container; if its image has no cat, by the shell of the step's image in a
// container that shares the service's network.

// maxTable bounds the part that is read of a table.
const maxTable = 1 << 20

// closedPort returns a port of a service at which nothing listens; 0: none.
func (s *step) closedPort(ctx context.Context, svc *service) (int, error) {
	table, there, err := catTable(ctx, s.engine.api, svc.id)
	if err == nil && !there {
		table, err = s.shellTable(ctx, svc)
	}
	if err != nil {
		return 0, err
	}
	open := listening(table)
	for _, port := range svc.Ports {
		if !slices.Contains(open, port) {
			return port, nil
		}
	}
	return 0, nil
}

// catTable prints the table in a container; there is false if that has no cat.
func catTable(ctx context.Context, api *client.Client, id string) (table []byte, there bool, err error) {
	made, err := api.ExecCreate(ctx, id, client.ExecCreateOptions{AttachStdout: true, Cmd: []string{"cat", "/proc/net/tcp", "/proc/net/tcp6"}})
	if err != nil {
		return nil, true, err
	}
	attached, err := api.ExecAttach(ctx, made.ID, client.ExecAttachOptions{})
	if err != nil {
		return nil, !isMissingProgram(err), ignoreMissingProgram(err)
	}
	stop := context.AfterFunc(ctx, attached.Close)
	defer stop()
	defer attached.Close()
	out := &bounded{}
	if _, err := stdcopy.StdCopy(out, &bounded{}, attached.Reader); err != nil {
		return nil, true, err
	}
	end, err := api.ExecInspect(ctx, made.ID, client.ExecInspectOptions{})
	if err != nil {
		return nil, true, err
	}
	return out.Bytes(), end.ExitCode != 126 && end.ExitCode != 127, nil
}

func isMissingProgram(err error) bool {
	return strings.Contains(err.Error(), "executable file not found") || strings.Contains(err.Error(), "no such file or directory")
}

func ignoreMissingProgram(err error) error {
	if isMissingProgram(err) {
		return nil
	}
	return err
}

// shellTable prints the table with the words that every shell has itself.
func (s *step) shellTable(ctx context.Context, svc *service) (table []byte, err error) {
	const script = `for table in /proc/net/tcp /proc/net/tcp6; do while read -r line; do echo "$line"; done < $table; done`
	spec, api := s.run.Step.Spec, s.engine.api
	id, err := s.create(ctx, client.ContainerCreateOptions{Name: s.name("ports"),
		Config:     &container.Config{Image: spec.Image, Entrypoint: spec.Argv[:1], Cmd: []string{"-c", script}, Labels: s.labels()},
		HostConfig: &container.HostConfig{NetworkMode: container.NetworkMode("container:" + svc.id), LogConfig: wholeLog()}})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, removeContainer(context.WithoutCancel(ctx), api, id)) }()
	if err := start(ctx, api, id); err != nil {
		return nil, &build.StepError{Text: fmt.Sprintf(
			"the ports of service %s cannot be seen: its image has no cat, and the step's image has no shell: %v", svc.Name, err)}
	}
	end := awaitEnd(ctx, api, id)
	<-end.exited
	log, err := api.ContainerLogs(ctx, id, client.ContainerLogsOptions{ShowStdout: true})
	if err != nil {
		return nil, err
	}
	defer log.Close()
	out := &bounded{}
	_, err = stdcopy.StdCopy(out, &bounded{}, log)
	return out.Bytes(), err
}

// bounded keeps the first bytes that are written to it.
type bounded struct{ bytes.Buffer }

func (b *bounded) Write(data []byte) (int, error) {
	room := max(0, maxTable-b.Len())
	_, _ = b.Buffer.Write(data[:min(room, len(data))]) // never fails
	return len(data), nil
}

// listening returns the ports of a table of sockets at which a program listens for more than the container itself. A line has a number,
// the local address and port in hexadecimal digits, the remote ones, and the state.
func listening(table []byte) (ports []int) {
	const listen = "0A"
	for line := range strings.Lines(string(table)) {
		fields := strings.Fields(line)
		if len(fields) < 4 || fields[3] != listen {
			continue
		}
		address, hex, _ := strings.Cut(fields[1], ":")
		port, err := strconv.ParseInt(hex, 16, 32)
		if err == nil && !isLoopback(address) {
			ports = append(ports, int(port))
		}
	}
	return ports
}

// isLoopback reports whether an address, in the order of bytes of amd64 and arm64, is 127.0.0.0/8 or ::1.
func isLoopback(address string) bool {
	return len(address) == 8 && strings.HasSuffix(address, "7F") || address == "00000000000000000000000001000000"
}
