package shim

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	shimv1 "github.com/waybill-dev/waybill/api/shim/v1"
	"github.com/waybill-dev/waybill/internal/attempt"
	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/command"
	"github.com/waybill-dev/waybill/internal/file"
	"github.com/waybill-dev/waybill/internal/mask"
)

// maxSecret is the most bytes of a mounted file that are masked.
const maxSecret = 1 << 20

// Exec runs a step's program in the workspace, with what environ has beside the variables of the shims, and writes
// the output into the spool. It returns the program's exit status. When ctx ends, when the worker requests it, or
// when the worker has been silent for too long, the program gets SIGTERM and after the grace SIGKILL.
func Exec(ctx context.Context, c Config, argv, environ []string) (code int, err error) {
	s, err := newSpool(filepath.Join(c.Folder, fileOutput))
	if err != nil {
		return 0, err
	}
	e := execution{Config: c, spool: s, settings: map[string]string{}}
	for _, pair := range environ {
		name, value, _ := strings.Cut(pair, "=")
		if strings.HasPrefix(name, shimv1.EnvPrefix) {
			e.settings[name] = value
		} else {
			e.environ = append(e.environ, pair)
		}
	}
	exit, err := e.run(ctx, argv)
	trailer := build.SpoolTrailer{Code: exit.Code, Ended: ctx.Err() != nil, Stdout: s.counts[build.SpoolStdout],
		Stderr: s.counts[build.SpoolStderr]}
	if err != nil {
		trailer.Fault = err.Error()
		_, trailer.OfStep = errors.AsType[*build.StepError](err)
	}
	return exit.Code, errors.Join(
		err,
		s.end(trailer),
		os.WriteFile(filepath.Join(c.Folder, fileEnded), nil, 0o644),
	) //nolint:gosec // serve may be another user
}

// execution is one program on its way.
type execution struct {
	Config
	spool    *spool
	settings map[string]string // the variables of the shims
	environ  []string          // environment of the program
}

func (e *execution) run(ctx context.Context, argv []string) (command.Exit, error) {
	if err := e.await(ctx); err != nil {
		return command.Exit{}, err
	}
	if commands := e.settings[shimv1.EnvCommands]; commands != "" {
		file := filepath.Join(e.Folder, "commands")
		if err := os.WriteFile(file, []byte(commands), 0o600); err != nil {
			return command.Exit{}, fmt.Errorf("write the commands: %w", err)
		}
		argv = append(slices.Clone(argv), file)
	}
	secrets, err := e.secrets()
	if err != nil {
		return command.Exit{}, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	var watching sync.WaitGroup
	defer watching.Wait() // nothing comes after the end of the spool
	defer cancel(nil)
	stdout, stderr := e.spool.stream(build.SpoolStdout, secrets, cancel), e.spool.stream(build.SpoolStderr, secrets, cancel)
	watching.Go(func() { e.watch(ctx, cancel) })
	exit, err := command.Command{Argv: argv, Dir: e.Repo, Env: e.environ, Stdout: stdout, Stderr: stderr,
		Grace: duration(e.settings[shimv1.EnvGrace], command.DefaultGrace)}.Run(ctx)
	if silent, ok := errors.AsType[*silenceError](context.Cause(ctx)); ok { // the program's status is meaningless: it may make 0 of SIGTERM
		err = errors.Join(silent, err)
	}
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
		err = &build.StepError{Text: err.Error()} // a program that the image does not have
	}
	return exit, errors.Join(err, stdout.close(), stderr.close())
}

// secrets returns the values that must not be printed: of variables by name, and of mounted files.
func (e *execution) secrets() (*mask.Set, error) {
	var values []string
	names := split(e.settings[shimv1.EnvSecrets])
	for _, pair := range e.environ {
		if name, value, _ := strings.Cut(pair, "="); slices.Contains(names, name) {
			values = append(values, value)
		}
	}
	for _, folder := range split(e.settings[shimv1.EnvMounted]) {
		files, err := os.ReadDir(folder)
		if err != nil {
			return nil, fmt.Errorf("read the secrets: %w", err)
		}
		for _, file := range files {
			value, err := readSecret(filepath.Join(folder, file.Name()))
			if err != nil {
				return nil, fmt.Errorf("read the secrets: %w", err)
			}
			values = append(values, value)
		}
	}
	return mask.NewSet(values...), nil
}

func split(list string) []string {
	if list == "" {
		return nil
	}
	return strings.Split(list, ",")
}

// readSecret returns the content of a file; "" for a folder, such as those of kubelet that hold the files of a mounted Secret.
func readSecret(path string) (string, error) {
	f, _, err := file.Open(path)
	if errors.Is(err, file.ErrKind) {
		return "", nil
	} else if err != nil {
		return "", err
	}
	defer f.Close()
	value, err := io.ReadAll(io.LimitReader(f, maxSecret))
	return string(value), err
}

// await waits for the ports of the services.
func (e *execution) await(ctx context.Context) error {
	var services []shimv1.Service
	if list := e.settings[shimv1.EnvServices]; list != "" {
		if err := json.Unmarshal([]byte(list), &services); err != nil {
			return fmt.Errorf("%s: %w", shimv1.EnvServices, err)
		}
	}
	for _, service := range services {
		if err := e.awaitService(ctx, service); err != nil {
			return err
		}
	}
	return nil
}

func (e *execution) awaitService(ctx context.Context, service shimv1.Service) error {
	began, limit := time.Now(), time.Duration(service.Seconds)*time.Second
	within, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for _, port := range service.Ports {
		err := awaitPort(within, port)
		if err != nil && ctx.Err() == nil {
			return &build.StepError{Text: fmt.Sprintf("service %s did not listen at port %d within %s", service.Name, port, limit)}
		}
		if err != nil {
			return err
		}
	}
	return e.spool.write(build.SpoolNote, fmt.Appendf(nil, "service %s is ready after %s", service.Name, time.Since(began).
		Round(100*time.Millisecond)))
}

func awaitPort(ctx context.Context, port int) error {
	again := time.NewTicker(pollPause)
	defer again.Stop()
	for {
		var dialer net.Dialer
		connection, err := dialer.DialContext(ctx, "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err == nil {
			return connection.Close()
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// silenceError means that the worker gave no sign of life.
type silenceError struct{ lasted time.Duration }

func (e *silenceError) Error() string {
	return fmt.Sprintf("the worker has been silent for %s, so the step is ended", e.lasted)
}

// watch ends the program when the worker requests it or is silent for too long.
func (e *execution) watch(ctx context.Context, cancel context.CancelCauseFunc) {
	silence := duration(e.settings[shimv1.EnvSilence], shimv1.Silence)
	began := time.Now() // the image may have been pulled for long before
	again := time.NewTicker(pollPause)
	defer again.Stop()
	for {
		select {
		case <-again.C:
		case <-ctx.Done():
			return
		}
		if _, err := os.Stat(filepath.Join(e.Folder, fileStop)); !errors.Is(err, fs.ErrNotExist) {
			cancel(errors.New("the worker has ended the step"))
			return
		}
		info, err := os.Stat(filepath.Join(e.Folder, fileAlive))
		if err != nil || time.Since(began) > silence && time.Since(info.ModTime()) > silence {
			silent := &silenceError{silence}
			_ = e.spool.write(build.SpoolNote, []byte(silent.Error())) // the program is ended in any case
			cancel(silent)
			return
		}
	}
}

// spool is the file of the output of a program.
type spool struct {
	mutex  sync.Mutex
	file   *os.File
	buffer []byte
	counts map[build.SpoolKind]int64 // bytes of each kind
}

func newSpool(path string) (*spool, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY|os.O_APPEND, 0o644) //nolint:gosec // serve may be another user
	if err != nil {
		return nil, fmt.Errorf("make the spool: %w", err)
	}
	return &spool{file: file, counts: map[build.SpoolKind]int64{}}, nil
}

// write appends a record in one write.
func (s *spool) write(kind build.SpoolKind, data []byte) error {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.counts[kind] += int64(len(data))
	s.buffer = build.AppendSpool(s.buffer[:0], build.SpoolRecord{Kind: kind, At: time.Now(), Data: data})
	if _, err := s.file.Write(s.buffer); err != nil {
		return fmt.Errorf("write the spool: %w", err)
	}
	return nil
}

// end writes the last record.
func (s *spool) end(trailer build.SpoolTrailer) error {
	text, err := json.Marshal(trailer)
	if err != nil {
		return err
	}
	return errors.Join(s.write(build.SpoolEnd, text), s.file.Close())
}

// stream writes one of the program's outputs into the spool, without secrets.
type stream struct {
	spool   *spool
	kind    build.SpoolKind
	failed  context.CancelCauseFunc
	silence *time.Timer // gives out what is held back

	mutex sync.Mutex // against the timer
	mask  mask.Stream
	err   error // error of the spool; the program is ended then
}

func (s *spool) stream(kind build.SpoolKind, secrets *mask.Set, failed context.CancelCauseFunc) *stream {
	out := &stream{spool: s, kind: kind, mask: mask.Stream{Set: secrets}, failed: failed}
	out.silence = time.AfterFunc(attempt.OutputPause, out.flush)
	return out
}

func (s *stream) flush() {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.mask.Flush(s.put)
}

// Write never fails: a program that is being ended must not block on its output.
func (s *stream) Write(data []byte) (int, error) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.mask.Write(data, s.put)
	s.silence.Reset(attempt.OutputPause)
	return len(data), nil
}

func (s *stream) put(data []byte) {
	if s.err != nil || len(data) == 0 {
		return
	}
	if s.err = s.spool.write(s.kind, data); s.err != nil {
		s.failed(s.err)
	}
}

func (s *stream) close() error {
	s.silence.Stop()
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.mask.Close(s.put)
	return s.err
}
