package command

import (
	"bytes"
	"context"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"
)

// supervisors are the processes that wait for the next step of a build. They are used again, since starting this program takes more CPU
// time than a short step.
type supervisors struct {
	mu   sync.Mutex
	idle []*supervisor
}

// supervisor is a process in Supervise, which runs one step at a time. It lives on when this process is killed, until
// it has ended the programs of its step: the kernel closes this end of the socket.
type supervisor struct {
	process *exec.Cmd
	steps   *net.UnixConn
	ended   chan struct{} // closed once the process has ended
}

// order is a step's program.
type order struct {
	Argv []string
	Dir  string
	Env  []string // NAME=value, all of it
}

// handover is an order with the step's ends of the pipes for its standard output and standard error.
type handover struct {
	order
	outputs [2]*os.File
}

// supervisorGrace limits how long a supervisor takes to kill a step.
const supervisorGrace = 5 * time.Second

// Close ends the supervisors. No step may be running.
func (r *Runner) Close() error {
	r.supervisors.mu.Lock()
	defer r.supervisors.mu.Unlock()
	for _, s := range r.supervisors.idle {
		s.end()
	}
	r.supervisors.idle = nil
	return nil
}

// supervise runs a step's program under a supervisor. An exit with a signal is that of the supervisor.
func (r *Runner) supervise(ctx context.Context, step order, outputs [2]*os.File) (Exit, error) {
	if err := context.Cause(ctx); err != nil {
		return Exit{}, err
	}
	s, err := r.supervisors.take(r.Supervisor)
	if err != nil {
		return Exit{}, fmt.Errorf("start the supervisor of %s: %w", step.Argv[0], err)
	}
	status, again, err := s.run(ctx, handover{step, outputs}, r.Grace)
	if again {
		r.supervisors.put(s)
		return Exit{Code: status}, nil
	}
	s.end()
	switch {
	case err == nil:
		return Exit{Code: status}, nil
	case !isClosed(err): // the supervisor had not ended, so its signal is the one of end
		return Exit{}, fmt.Errorf("hand %s over to its supervisor: %w", step.Argv[0], err)
	}
	exit := exitOf(s.process.ProcessState)
	if exit.Signal == 0 {
		return exit, fmt.Errorf("the supervisor of %s ended before it with %v: %w", step.Argv[0], exit, err)
	}
	return exit, nil
}

// isClosed reports whether an error of the socket means that the other end is closed.
func isClosed(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET)
}

// take returns a supervisor that has no step.
func (p *supervisors) take(argv []string) (*supervisor, error) {
	if s := p.takeIdle(); s != nil {
		return s, nil
	}
	return startSupervisor(argv)
}

// takeIdle returns nil if there is none.
func (p *supervisors) takeIdle() *supervisor {
	p.mu.Lock()
	defer p.mu.Unlock()
	for last := len(p.idle) - 1; last >= 0; last-- {
		s := p.idle[last]
		p.idle = p.idle[:last]
		select {
		case <-s.ended: // killed
			s.end()
		default:
			return s
		}
	}
	return nil
}

func (p *supervisors) put(s *supervisor) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.idle = append(p.idle, s)
}

// startSupervisor starts a supervisor in a session of its own. It gets nothing of this environment, and GOGC saves it
// a collection of this program's allocations before main.
func startSupervisor(argv []string) (*supervisor, error) {
	steps, theirs, err := socketPair()
	if err != nil {
		return nil, err
	}
	process, err := start(func() *exec.Cmd {
		return &exec.Cmd{Path: argv[0], Args: argv, Env: []string{"GOGC=400"}, Stdin: theirs, Stderr: os.Stderr,
			SysProcAttr: &syscall.SysProcAttr{Setsid: true}}
	})
	if err := errors.Join(err, theirs.Close()); err != nil {
		return nil, errors.Join(err, steps.Close())
	}
	s := &supervisor{process, steps, make(chan struct{})}
	go func() {
		defer close(s.ended)
		_ = process.Wait() // the state is complete
	}()
	return s, nil
}

// socketPair returns two ends of a connection. No other child inherits the first, which would keep it open when this process is dead.
func socketPair() (ours *net.UnixConn, theirs *os.File, err error) {
	syscall.ForkLock.RLock()
	ends, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err == nil {
		syscall.CloseOnExec(ends[0])
		syscall.CloseOnExec(ends[1])
	}
	syscall.ForkLock.RUnlock()
	if err != nil {
		return nil, nil, os.NewSyscallError("socketpair", err)
	}
	first, theirs := os.NewFile(uintptr(ends[0]), "supervisor"), os.NewFile(uintptr(ends[1]), "worker")
	conn, err := net.FileConn(first)
	if err := errors.Join(err, first.Close()); err != nil {
		return nil, nil, errors.Join(err, theirs.Close())
	}
	return conn.(*net.UnixConn), theirs, nil //nolint:forcetypeassert // the pair is of the family
}

// run hands a step over and returns its exit status once the supervisor has ended all that it started. When ctx ends the step gets
// SIGTERM, and after the grace it is killed. again reports whether the supervisor can run a further step; an error
// means that the supervisor has returned no status.
func (s *supervisor) run(ctx context.Context, step handover, grace time.Duration) (status int, again bool, err error) {
	ended, watched := make(chan struct{}), make(chan bool)
	go func() { watched <- s.endWith(ctx, ended, grace) }()
	var answer [1]byte
	if err = s.send(step); err == nil {
		_, err = io.ReadFull(s.steps, answer[:])
	}
	close(ended)
	asked := <-watched
	return int(answer[0]), err == nil && !asked, err
}

// endWith ends the step when ctx ends before it, and reports whether it did.
func (s *supervisor) endWith(ctx context.Context, ended <-chan struct{}, grace time.Duration) bool {
	select {
	case <-ended:
		return false
	case <-ctx.Done():
	}
	_ = s.process.Process.Signal(syscall.SIGTERM) // an error of these means that the supervisor has ended, which shows elsewhere
	for _, harder := range []struct {
		after time.Duration
		do    func() error
	}{{grace, s.steps.CloseWrite}, {supervisorGrace, s.process.Process.Kill}} {
		timer := time.NewTimer(harder.after)
		select {
		case <-ended:
			timer.Stop()
			return true
		case <-timer.C:
			_ = harder.do()
		}
	}
	return true
}

// end kills the process, which has no step, and waits for its end.
func (s *supervisor) end() {
	_ = s.process.Process.Kill() // it may have ended
	<-s.ended
	_ = s.steps.Close() // nothing reads it
}

// send hands a step over. The outputs go with the first byte.
func (s *supervisor) send(step handover) error {
	message := bytes.NewBuffer([]byte{0})
	if err := gob.NewEncoder(message).Encode(step.order); err != nil {
		return err
	}
	rights := syscall.UnixRights(int(step.outputs[0].Fd()), int(step.outputs[1].Fd()))
	n, _, err := s.steps.WriteMsgUnix(message.Bytes(), rights, nil)
	if err != nil {
		return err
	}
	_, err = s.steps.Write(message.Bytes()[n:])
	return err
}

// receive waits for the next step. The decoder may read ahead, which would lose the files of a further step, but the worker sends
// that one only after the answer to this one.
func receive(worker *net.UnixConn) (step handover, err error) {
	var first [1]byte
	control := make([]byte, syscall.CmsgSpace(len(step.outputs)*4)) // each file is an int32
	n, size, _, _, err := worker.ReadMsgUnix(first[:], control)
	if err != nil || n == 0 {
		return step, errors.Join(err, io.EOF)
	}
	messages, err := syscall.ParseSocketControlMessage(control[:size])
	if err != nil || len(messages) != 1 {
		return step, errors.Join(err, errors.New("a step has no outputs"))
	}
	files, err := syscall.ParseUnixRights(&messages[0])
	if err != nil || len(files) != len(step.outputs) {
		return step, errors.Join(err, errors.New("a step has no outputs"))
	}
	for i, file := range files {
		step.outputs[i] = os.NewFile(uintptr(file), "output")
	}
	return step, gob.NewDecoder(worker).Decode(&step.order)
}
