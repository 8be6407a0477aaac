//go:build linux

package chaos

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/childtest"
	"github.com/waybill-dev/waybill/internal/queue"
)

// Process is one `waybill serve`. It ends with this process at the latest.
type Process struct {
	Name   string // name of its instances in the log: host and process id
	Output *Output
	world  *World
	handle *os.Process
	ended  chan struct{}
	err    error // once ended is closed
}

// Output is the printed output of a process.
type Output struct {
	mu     sync.Mutex
	buffer bytes.Buffer
}

func (o *Output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buffer.Write(p)
}

func (o *Output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buffer.String()
}

// Lines returns the lines of output that contain a text.
func (o *Output) Lines(text string) []string {
	var found []string
	for line := range strings.Lines(o.String()) {
		if strings.Contains(line, text) {
			found = append(found, strings.TrimSpace(line))
		}
	}
	return found
}

// Serve starts a process with the roles.
func (w *World) Serve(ctx context.Context, roles ...string) (*Process, error) {
	return w.ServeOn(ctx, w.Store, roles...)
}

// ServeOn starts a process that reaches the database in another way than others do.
func (w *World) ServeOn(ctx context.Context, store string, roles ...string) (*Process, error) {
	args := append([]string{"serve"}, roles...)
	if store != "" {
		args = append(args, "--store", store)
	}
	return w.run(ctx, args...)
}

// Up starts `waybill up`, which serves on the embedded log at an address.
func (w *World) Up(ctx context.Context, address string) (*Process, error) {
	return w.run(ctx, "up", "--listen", address)
}

func (w *World) run(ctx context.Context, args ...string) (*Process, error) {
	args = append(args, "--log-format", "json", "--home", w.home(), "--config", w.file())
	p := &Process{world: w, Output: new(Output), ended: make(chan struct{})}
	command := exec.CommandContext(context.WithoutCancel(ctx), w.Binary, args...)
	command.Dir = w.Folder
	command.Env = append(os.Environ(), w.Environment...)
	command.Stdout, command.Stderr = p.Output, p.Output
	command.SysProcAttr, command.WaitDelay = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}, childtest.Linger
	started := make(chan error)
	go func() {
		runtime.LockOSThread() // the parent whose death kills it is the thread
		err := command.Start()
		started <- err
		if err == nil {
			p.err = command.Wait()
			close(p.ended)
		}
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	p.handle = command.Process
	host, err := os.Hostname()
	p.Name = fmt.Sprintf("%s/%d", host, p.handle.Pid)
	return p, err
}

// Kill ends the process without a word and waits for its end. A second call does nothing.
func (p *Process) Kill() {
	_ = p.handle.Kill() // an error reports that it has ended
	<-p.ended
}

// Terminate asks the process to end, as a supervisor does, and returns how it ended. One that does
// not end is killed.
func (p *Process) Terminate() error {
	_ = p.handle.Signal(syscall.SIGTERM)
	limit := time.NewTimer(childtest.Limit)
	defer limit.Stop()
	select {
	case <-p.ended:
		return p.err
	case <-limit.C:
		p.Kill()
		return childtest.ErrLimit
	}
}

// Ended returns a channel that is closed when the process has ended.
func (p *Process) Ended() <-chan struct{} { return p.ended }

// Freeze stops the process in whatever it does, and Thaw lets it continue.
func (p *Process) Freeze() error { return p.handle.Signal(syscall.SIGSTOP) }

// Thaw lets a frozen process continue.
func (p *Process) Thaw() error { return p.handle.Signal(syscall.SIGCONT) }

// Joined waits until the process is registered with a role, and returns its id.
func (p *Process) Joined(ctx context.Context, role string) (id action.ID, err error) {
	err = Until(ctx, p.Name+" joins as "+role, 3*time.Minute, func(ctx context.Context) (bool, error) {
		select {
		case <-p.ended:
			return false, fmt.Errorf("it has ended: %w\n%s", p.err, p.Output)
		default:
		}
		instances, err := p.world.Ledger.Instances(ctx)
		for _, i := range instances {
			if i.Name == p.Name && has(i, role) {
				id = i.ID
				return true, nil
			}
		}
		return false, err
	})
	return id, err
}

func has(i queue.InstanceRow, role string) bool {
	for _, r := range i.Roles {
		if r == role {
			return true
		}
	}
	return false
}
