package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
)

// Local is this computer as a host: it does here the work that other hosts do over a connection. The zero value is
// ready. Safe for concurrent use.
type Local struct {
	Env []string // NAME=value, all of it; nil: PATH, HOME and the like of this process, and no more
}

// inherited lists the environment variables of this process that a command on this computer gets.
var inherited = []string{"PATH", "HOME", "USER", "LOGNAME", "SHELL", "TMPDIR", "TZ"}

// Run runs argv in a session of its own and returns its exit status; 128 + signal when a signal ended it. An error
// reports that it did not run, or that stdin could not be read.
//
// When ctx ends first, Run returns its cause at once and argv continues as after a connection that is cut:
// its standard input ends, and its output goes nowhere.
func (l *Local) Run(ctx context.Context, argv []string, stdin io.Reader, stdout, stderr io.Writer) (int, error) {
	if err := context.Cause(ctx); err != nil {
		return -1, err
	}
	cmd, err := l.command(argv)
	if err != nil {
		return -1, err
	}
	s, err := openPipes(cmd)
	if err != nil {
		return -1, err
	}
	if err := cmd.Start(); err != nil {
		s.cut()
		return -1, fmt.Errorf("start %s: %w", argv[0], err)
	}
	source := &rememberingReader{r: stdin}
	copied := s.copy(source, stdout, stderr)
	select {
	case <-copied:
	case <-ctx.Done():
		s.cut()
		<-copied
		go func() { _ = cmd.Wait() }() // only to take its exit status from the kernel
		return -1, context.Cause(ctx)
	}
	err = waitError(cmd.Wait())
	if source.err != nil {
		err = source.err
	}
	return exitOf(cmd.ProcessState).Code, err
}

// Dial connects to an address of this computer.
func (l *Local) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	var dialer net.Dialer
	return dialer.DialContext(ctx, network, address)
}

// Close does nothing, since a local host has no connection.
func (l *Local) Close() error { return nil }

func (l *Local) command(argv []string) (*exec.Cmd, error) {
	if len(argv) == 0 {
		return nil, errors.New("run a command: its argv is empty")
	}
	env := l.Env
	if env == nil {
		env = []string{}
		for _, name := range inherited {
			if value, set := os.LookupEnv(name); set {
				env = append(env, name+"="+value)
			}
		}
	}
	path, err := lookPath(argv[0], env)
	if err != nil {
		return nil, err
	}
	return &exec.Cmd{Path: path, Args: argv, Env: env, Dir: "/", SysProcAttr: &syscall.SysProcAttr{Setsid: true}}, nil
}

// lookPath finds a program in the PATH of env, of which the last counts. Relative folders of it do not.
func lookPath(name string, env []string) (string, error) {
	if strings.ContainsRune(name, '/') {
		return name, nil
	}
	for _, entry := range slices.Backward(env) {
		list, ok := strings.CutPrefix(entry, "PATH=")
		if !ok {
			continue
		}
		for _, dir := range filepath.SplitList(list) {
			path := filepath.Join(dir, name)
			if info, err := os.Stat(path); err == nil && filepath.IsAbs(dir) && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
				return path, nil
			}
		}
		break
	}
	return "", fmt.Errorf("find %s in PATH: %w", name, fs.ErrNotExist)
}

// pipes are this side of a command's pipes.
type pipes struct {
	in       io.WriteCloser
	out, err io.ReadCloser
}

func openPipes(cmd *exec.Cmd) (*pipes, error) {
	in, errIn := cmd.StdinPipe()
	out, errOut := cmd.StdoutPipe()
	stderr, errErr := cmd.StderrPipe()
	if err := errors.Join(errIn, errOut, errErr); err != nil {
		return nil, fmt.Errorf("open pipes: %w", err)
	}
	return &pipes{in, out, stderr}, nil
}

// copy moves data until both outputs have ended. The channel closes when nothing is moved any more.
func (s *pipes) copy(stdin *rememberingReader, stdout, stderr io.Writer) <-chan struct{} {
	var group sync.WaitGroup
	if stdin.r != nil {
		group.Go(func() {
			_, _ = io.Copy(s.in, stdin) // a command need not read it all
			_ = s.in.Close()
		})
	} else {
		_ = s.in.Close()
	}
	group.Go(func() { drain(stdout, s.out) })
	group.Go(func() { drain(stderr, s.err) })
	copied := make(chan struct{})
	go func() {
		group.Wait()
		close(copied)
	}()
	return copied
}

// drain copies all of r; bytes that w does not want are dropped, so that the command never blocks.
func drain(w io.Writer, r io.Reader) {
	if w != nil {
		_, _ = io.Copy(w, r)
	}
	_, _ = io.Copy(io.Discard, r)
}

func (s *pipes) cut() {
	_, _, _ = s.in.Close(), s.out.Close(), s.err.Close()
}

// rememberingReader keeps the error of its source, so that it can be distinguished from a writer's
// error.
type rememberingReader struct {
	r   io.Reader
	err error
}

func (r *rememberingReader) Read(p []byte) (int, error) {
	n, err := r.r.Read(p)
	if err != nil && err != io.EOF {
		r.err = fmt.Errorf("read what is sent: %w", err)
	}
	return n, err
}
