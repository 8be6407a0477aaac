//go:build linux

package chaos

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"
	"time"

	"github.com/waybill-dev/waybill/internal/childtest"
)

// Pooler is a PgBouncer in transaction mode: each transaction gets whichever of a few connections
// is free.
type Pooler struct {
	Output *Output
	place  string // host:port
	handle *os.Process
	ended  chan struct{}
}

// NewPooler starts one before the server of a database's address, with its files in folder. Like
// PostgreSQL it refuses to be root; then it runs as user postgres.
func NewPooler(ctx context.Context, folder, database string) (*Pooler, error) {
	program, err := exec.LookPath("pgbouncer")
	if err != nil {
		program = "/usr/sbin/pgbouncer" // where Debian has it, outside of most people's PATH
	}
	address, err := url.Parse(database)
	if err != nil {
		return nil, err
	}
	p := &Pooler{Output: new(Output), ended: make(chan struct{})}
	p.place, err = FreeAddress(ctx)
	if err != nil {
		return nil, err
	}
	_, port, err := net.SplitHostPort(p.place)
	if err != nil {
		return nil, err
	}
	file := filepath.Join(folder, "pgbouncer.ini")
	configuration := fmt.Sprintf(`[databases]
* = host=%s port=%s
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = %s
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = 6
max_client_conn = 200
`, address.Hostname(), address.Port(), port)
	// With auth_type "any" all clients are one user of the server, who must be named.
	configuration = configuration[:len("[databases]\n* = ")] + "user=" + address.User.Username() + " " +
		configuration[len("[databases]\n* = "):]
	if err := os.WriteFile(file, []byte(configuration), 0o644); err != nil {
		return nil, err
	}
	command := exec.CommandContext(context.WithoutCancel(ctx), program, file)
	command.WaitDelay = childtest.Linger
	command.Dir, command.Stdout, command.Stderr = "/", p.Output, p.Output
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if postgres, err := user.Lookup("postgres"); err == nil && os.Getuid() == 0 {
		uid, _ := strconv.ParseUint(postgres.Uid, 10, 32) // numbers, on every Unix
		gid, _ := strconv.ParseUint(postgres.Gid, 10, 32)
		command.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
	}
	return p, p.start(ctx, command)
}

// start returns when it answers.
func (p *Pooler) start(ctx context.Context, command *exec.Cmd) error {
	started := make(chan error)
	go func() {
		runtime.LockOSThread() // the parent whose death kills it is the thread
		err := command.Start()
		started <- err
		if err == nil {
			_ = command.Wait()
			close(p.ended)
		}
	}()
	if err := <-started; err != nil {
		return fmt.Errorf("start pgbouncer (run scripts/setup, or apt-get install pgbouncer): %w", err)
	}
	p.handle = command.Process
	err := Until(ctx, "pgbouncer answers", 3*time.Minute, func(ctx context.Context) (bool, error) {
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", p.place)
		if err != nil {
			return false, err
		}
		return true, conn.Close()
	})
	if err != nil {
		err = fmt.Errorf("%w\n%s", err, p.Output)
	}
	return err
}

// Through returns a database's address by way of the pooler.
func (p *Pooler) Through(database string) string {
	address, err := url.Parse(database)
	if err != nil {
		return database // the client that uses it reports the error
	}
	address.Host = p.place
	return address.String()
}

// Close ends it.
func (p *Pooler) Close() {
	_ = p.handle.Kill() // an error reports that it has ended
	<-p.ended
}

// FreeAddress returns an address of this machine on which no program listens now.
func FreeAddress(ctx context.Context) (string, error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return listener.Addr().String(), listener.Close()
}
