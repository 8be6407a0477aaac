// Package pgtest gives tests a real PostgreSQL: one server for a run, a
// database for each test. A test whose server cannot be had fails.
package pgtest

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/waybill-dev/waybill/internal/childtest"
)

// Server is a PostgreSQL of our own: its folder, its port, its process.
type Server struct {
	folder   string
	binaries string
	port     int
	output   *bytes.Buffer
	settings []string // NAME=VALUE
	process  *os.Process
	ended    chan error
	extra    []string // additions to the server's environment
}

// Start makes a database cluster in a temporary folder and starts a server on
// a free loopback port, with settings NAME=VALUE besides its defaults. It ends with this process even
// when that is killed. As root it runs as user postgres, since PostgreSQL refuses root.
func Start(ctx context.Context, settings ...string) (*Server, error) {
	binaries, err := find()
	if err != nil {
		return nil, err
	}
	folder, err := os.MkdirTemp("", "waybill-postgres-")
	if err != nil {
		return nil, err
	}
	s := &Server{folder: folder, binaries: binaries, settings: settings}
	if err := s.create(ctx); err != nil {
		return nil, err
	}
	return s, s.Run(ctx)
}

// Program returns the path of one of PostgreSQL's programs, such as pg_dump.
func Program(name string) (string, error) {
	binaries, err := find()
	if err != nil {
		return "", err
	}
	if beside := filepath.Join(binaries, name); exists(beside) {
		return beside, nil
	}
	return exec.LookPath(name)
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// Binaries names the folder of the PostgreSQL that the tests use. Where it is not set they use the one in PATH, else the newest.
const Binaries = "WAYBILL_TEST_POSTGRES_BIN"

// find returns the folder of PostgreSQL's programs.
func find() (string, error) {
	if folder := os.Getenv(Binaries); folder != "" {
		if !exists(filepath.Join(folder, "initdb")) {
			return "", fmt.Errorf("%s: %s has no initdb", Binaries, folder)
		}
		return folder, nil
	}
	if path, err := exec.LookPath("initdb"); err == nil {
		return filepath.Dir(path), nil
	}
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/initdb") // the pattern is right
	if len(found) == 0 {
		return "", fmt.Errorf("PostgreSQL is not installed: run scripts/setup, or apt-get install postgresql")
	}
	slices.Sort(found)
	return filepath.Dir(found[len(found)-1]), nil
}

// create makes the cluster's files, owned by the user that will run it.
func (s *Server) create(ctx context.Context) error {
	if as := runAs(); as != nil {
		if err := os.Chown(s.folder, int(as.Uid), int(as.Gid)); err != nil {
			return err
		}
	}
	command := s.command(ctx, "initdb", "-D", s.data(), "--no-sync", "-A", "trust", "-U", "postgres", "-E", "UTF8", "--locale=C")
	if out, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("initdb: %w\n%s", err, out)
	}
	return nil
}

func (s *Server) data() string { return filepath.Join(s.folder, "data") }

func (s *Server) command(ctx context.Context, program string, args ...string) *exec.Cmd {
	if !filepath.IsAbs(program) {
		program = filepath.Join(s.binaries, program)
	}
	command := exec.CommandContext(ctx, program, args...)
	command.Dir = s.folder
	command.Env = append(os.Environ(), "TZ=UTC", "PGTZ=UTC")
	command.SysProcAttr = &syscall.SysProcAttr{Credential: runAs()}
	return command
}

// runAs returns the user postgres if this process runs as root, which PostgreSQL refuses; otherwise
// nil.
func runAs() *syscall.Credential {
	if os.Getuid() != 0 {
		return nil
	}
	postgres, err := user.Lookup("postgres")
	if err != nil {
		return nil
	}
	uid, _ := strconv.ParseUint(postgres.Uid, 10, 32) // numbers, on every Unix
	gid, _ := strconv.ParseUint(postgres.Gid, 10, 32)
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
}

// Run starts the server, again after Stop or Kill, on the port that it had, and waits until it
// answers.
func (s *Server) Run(ctx context.Context) error {
	if s.port == 0 {
		port, err := childtest.FreePort(ctx)
		if err != nil {
			return err
		}
		s.port = port
	}
	s.output, s.ended = new(bytes.Buffer), make(chan error, 1)
	command := s.command(context.WithoutCancel(ctx), "postgres", "-D", s.data(), "-k", s.folder, "-h", "127.0.0.1", "-p", strconv.Itoa(s.port),
		"-c", "max_connections=300", "-c", "shared_buffers=256MB", "-c", "log_min_messages=fatal",
		"-c", "shared_preload_libraries=pg_stat_statements") // tests count statements
	for _, setting := range s.settings {
		command.Args = append(command.Args, "-c", setting)
	}
	command.Stdout, command.Stderr = s.output, s.output
	command.Env = append(command.Env, s.extra...)
	endWithParent(command.SysProcAttr)
	started := make(chan error)
	go func() {
		runtime.LockOSThread() // the parent that must not die is the thread
		err := command.Start()
		started <- err
		if err == nil {
			s.ended <- command.Wait()
		}
	}()
	if err := <-started; err != nil {
		return err
	}
	s.process = command.Process
	return s.await(ctx)
}

// await returns when the server answers.
func (s *Server) await(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	for {
		db, err := pgx.Connect(ctx, s.URL())
		if err == nil {
			return db.Close(ctx)
		}
		select {
		case ended := <-s.ended:
			s.ended <- ended
			return fmt.Errorf("PostgreSQL ended: %w\n%s", ended, s.output)
		case <-ctx.Done():
			return fmt.Errorf("PostgreSQL does not answer: %w", err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// standby starts a server that follows this one.
func (s *Server) standby(ctx context.Context) (*Server, error) {
	folder, err := os.MkdirTemp("", "waybill-postgres-")
	if err != nil {
		return nil, err
	}
	copied := &Server{folder: folder, binaries: s.binaries, settings: s.settings}
	if as := runAs(); as != nil {
		if err := os.Chown(folder, int(as.Uid), int(as.Gid)); err != nil {
			return nil, err
		}
	}
	program, err := Program("pg_basebackup")
	if err != nil {
		return nil, err
	}
	command := copied.command(ctx, program, "-d", s.URL(), "-D", copied.data(), "-R", "-X", "stream", "--checkpoint=fast", "--no-sync")
	if out, err := command.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("pg_basebackup: %w\n%s", err, out)
	}
	return copied, copied.Run(ctx)
}

// Fence makes the server read-only, as a managed database does with a former primary: it ends no connection.
func (s *Server) Fence(ctx context.Context) error {
	return s.execute(ctx, "ALTER SYSTEM SET default_transaction_read_only = on", "SELECT pg_reload_conf()")
}

// Unfence makes a server take writes again.
func (s *Server) Unfence(ctx context.Context) error {
	return s.execute(ctx, "ALTER SYSTEM RESET default_transaction_read_only", "SELECT pg_reload_conf()")
}

// Promote makes a standby take writes.
func (s *Server) Promote(ctx context.Context) error { return s.execute(ctx, "SELECT pg_promote()") }

// execute runs statements in order, each outside a transaction.
func (s *Server) execute(ctx context.Context, statements ...string) error {
	db, err := pgx.Connect(ctx, s.URL())
	if err != nil {
		return err
	}
	defer db.Close(ctx)
	for _, statement := range statements {
		if _, err := db.Exec(ctx, statement); err != nil {
			return fmt.Errorf("%s: %w", statement, err)
		}
	}
	return nil
}

// Address returns the server's host and port.
func (s *Server) Address() string { return "127.0.0.1:" + strconv.Itoa(s.port) }

// URL returns the address of the server's own database, as its superuser.
func (s *Server) URL() string {
	return fmt.Sprintf("postgres://postgres@127.0.0.1:%d/postgres", s.port)
}

// SetClock makes the server's clock differ from this machine's, from now on and at once, as
// libfaketime can for programs that are linked with the system's library. A clock that is to be set
// later must have been set before Run.
func (s *Server) SetClock(ahead time.Duration) error {
	found, _ := filepath.Glob("/usr/lib/*/faketime/libfaketime.so.1") // the pattern is right
	if len(found) == 0 {
		return fmt.Errorf("libfaketime is not installed: run scripts/setup, or apt-get install libfaketime")
	}
	file := filepath.Join(s.folder, "clock")
	if err := os.WriteFile(file+".new", fmt.Appendf(nil, "%+ds\n", int(ahead.Seconds())), 0o644); err != nil {
		return err
	}
	s.extra = []string{"LD_PRELOAD=" + found[0], "FAKETIME_TIMESTAMP_FILE=" + file, "FAKETIME_NO_CACHE=1",
		"FAKETIME_DONT_FAKE_MONOTONIC=1", "DONT_FAKE_MONOTONIC=1"}
	return os.Rename(file+".new", file)
}

// Stop ends the server quickly and cleanly: connections are cut, nothing committed is lost.
func (s *Server) Stop() error { return s.signal(syscall.SIGINT) }

// Kill ends the server as a crash would: it recovers from its log at the next Run.
func (s *Server) Kill() error { return s.signal(syscall.SIGQUIT) }

func (s *Server) signal(signal os.Signal) error {
	if err := s.process.Signal(signal); err != nil {
		return err
	}
	<-s.ended
	return nil
}

// Remove deletes the files of a server that has ended.
func (s *Server) Remove() error { return os.RemoveAll(s.folder) }
