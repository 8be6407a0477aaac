package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/waybill-dev/waybill/internal/ssh"
)

func sshFlags(f *flag.FlagSet, o *Options) {
	o.Hosts = []int{500}
	f.Func("hosts", "addresses of the loopback, each a host of its own to the clients (default 500)", counts(&o.Hosts))
	f.IntVar(&o.Steps, "steps", 4, "commands on each open connection")
	f.IntVar(&o.Workers, "dials", 64, "connections, and OpenSSH processes, that are being made at a time")
}

// reachHosts measures what it takes to run commands on many hosts from one process: one each, and several each
// over one connection. OpenSSH's own client does the same in turn, at its best settings. All reach one
// OpenSSH server, and the CPU time of both ends is counted until the last connection has ended.
func reachHosts(ctx context.Context, o Options) ([]Result, error) {
	s, err := startSSH(ctx, o.Hosts[0])
	if err != nil {
		return nil, err
	}
	defer s.stop()
	var results []Result
	for _, commands := range []int{1, o.Steps} {
		what := fmt.Sprintf("%d hosts, %d commands each", o.Hosts[0], commands)
		ours := Result{Bench: "ssh", Subject: "Waybill, " + what, Unit: "commands/s"}
		rival := Result{Bench: "ssh", Subject: "OpenSSH, " + what, Unit: "commands/s", Version: openSSHVersion(ctx)}
		for range o.Rounds {
			if err := s.measure(&ours, commands, func() (time.Duration, error) { return s.reach(ctx, o.Workers, commands) }); err != nil {
				return nil, err
			}
			if err := s.measure(&rival, commands, func() (time.Duration, error) { return s.reachByOpenSSH(ctx, o.Workers, commands) }); err != nil {
				return nil, err
			}
		}
		ours.summarize()
		rival.summarize()
		ours.against(rival, 1)
		results = append(results, ours, rival)
	}
	cpu := results[0].middle(func(r Round) float64 { return r.ClientCPU })
	results[0].judge("≤ 2,500 µs CPU at this end, over 135/s", cpu <= 2500 && results[0].Median > 135)
	return results, nil
}

// measure adds a round. do returns the CPU time of the client.
func (s *sshServer) measure(r *Result, commands int, do func() (time.Duration, error)) error {
	before, err := s.used()
	if err != nil {
		return err
	}
	start := time.Now()
	client, err := do()
	if err != nil {
		return err
	}
	round := measured(len(s.hosts)*commands, start)
	after, err := s.used()
	round.ClientCPU = float64(client.Microseconds()) / float64(round.Ops)
	round.ServerCPU = float64((after - before).Microseconds()) / float64(round.Ops)
	r.Rounds = append(r.Rounds, round)
	return err
}

// reach runs commands on each host over one connection, all hosts at the same time.
func (s *sshServer) reach(ctx context.Context, dials, commands int) (time.Duration, error) {
	before := ownCPU()
	pool := ssh.NewPool(ssh.Config{Dials: dials})
	err := s.onEach(len(s.hosts), func(address string) error {
		h, err := pool.Host(ctx, ssh.Target{Address: address, User: s.user, Identity: s.file("id"), KnownHosts: s.file("known_hosts")})
		if err != nil {
			return err
		}
		defer h.Close()
		for range commands {
			if exit, err := h.Run(ctx, []string{"true"}, nil, nil, nil); err != nil || exit != 0 {
				return fmt.Errorf("on %s: exit status %d: %w", address, exit, err)
			}
		}
		return nil
	})
	pool.Close()
	return ownCPU() - before, err
}

// reachByOpenSSH does the same by OpenSSH's client: for several commands a master process keeps the
// connection of each host. It returns the CPU time of the client's processes.
func (s *sshServer) reachByOpenSSH(ctx context.Context, atATime, commands int) (time.Duration, error) {
	var used atomic.Int64
	err := s.onEach(atATime, func(address string) error {
		run := func(args ...string) error {
			c := s.client(ctx, address, args...)
			out, err := c.CombinedOutput()
			used.Add(int64(c.ProcessState.UserTime() + c.ProcessState.SystemTime()))
			if err != nil {
				return fmt.Errorf("ssh to %s: %w: %s", address, err, out)
			}
			return nil
		}
		if commands == 1 {
			return run("true")
		}
		control := s.file("control-" + address)
		master := s.client(ctx, address, "-M", "-N", "-S", control)
		if err := master.Start(); err != nil {
			return err
		}
		defer func() {
			_ = master.Process.Signal(syscall.SIGTERM)
			_ = master.Wait()
			used.Add(int64(master.ProcessState.UserTime() + master.ProcessState.SystemTime()))
		}()
		for _, err := os.Stat(control); err != nil; _, err = os.Stat(control) {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			time.Sleep(2 * time.Millisecond)
		}
		for range commands {
			if err := run("-S", control, "true"); err != nil {
				return err
			}
		}
		return nil
	})
	return time.Duration(used.Load()), err
}

// client is OpenSSH's client with the quickest algorithms, and nothing that it would look up or write. Options come
// before the command in args.
func (s *sshServer) client(ctx context.Context, address string, args ...string) *exec.Cmd {
	host, port, _ := net.SplitHostPort(address)
	settings := []string{"-F", "none", "-i", s.file("id"), "-p", port, "-l", s.user}
	for _, option := range []string{"BatchMode=yes", "IdentitiesOnly=yes", "IdentityAgent=none", "PreferredAuthentications=publickey",
		"UserKnownHostsFile=" + s.file("known_hosts"), "GlobalKnownHostsFile=none", "UpdateHostKeys=no", "StrictHostKeyChecking=yes",
		"KexAlgorithms=curve25519-sha256", "HostKeyAlgorithms=ssh-ed25519", "Ciphers=aes128-gcm@openssh.com", "CanonicalizeHostname=no"} {
		settings = append(settings, "-o", option)
	}
	var command []string
	if last := len(args) - 1; args[last] == "true" {
		args, command = args[:last], args[last:]
	}
	return exec.CommandContext(ctx, "ssh", slices.Concat(settings, args, []string{host}, command)...)
}

// openSSHVersion returns the version that the client prints.
func openSSHVersion(ctx context.Context) string {
	out, err := exec.CommandContext(ctx, "ssh", "-V").CombinedOutput()
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(out))
}

// sshServer is an OpenSSH server that answers on every address of the loopback.
type sshServer struct {
	dir, user string
	port      string
	hosts     []string // addresses HOST:PORT
	process   *exec.Cmd
}

// startSSH starts a server that lets one key in, and writes the key and the known hosts.
func startSSH(ctx context.Context, hosts int) (s *sshServer, err error) {
	who, err := user.Current()
	if err != nil {
		return nil, err
	}
	s = &sshServer{user: who.Username}
	if s.dir, err = os.MkdirTemp("", "waybill-bench-"); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			_ = os.RemoveAll(s.dir)
		}
	}()
	for _, key := range []string{"host", "id"} {
		if out, err := exec.CommandContext(ctx, "ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", s.file(key)).CombinedOutput(); err != nil {
			return nil, fmt.Errorf("ssh-keygen: %w: %s", err, out)
		}
	}
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	_, s.port, _ = net.SplitHostPort(free.Addr().String())
	_ = free.Close()
	public, err := os.ReadFile(s.file("host.pub"))
	if err != nil {
		return nil, err
	}
	var known bytes.Buffer
	for i := range hosts {
		host := fmt.Sprintf("127.0.%d.%d", i/250, i%250+1)
		s.hosts = append(s.hosts, net.JoinHostPort(host, s.port))
		fmt.Fprintf(&known, "[%s]:%s %s", host, s.port, public)
	}
	config := []string{"ListenAddress 0.0.0.0:" + s.port, "AllowUsers " + s.user + "@127.0.0.0/8", "HostKey " + s.file("host"),
		"AuthorizedKeysFile " + s.file("id.pub"), "StrictModes no", "UsePAM no", "PidFile none", "LogLevel QUIET", "UseDNS no",
		"PasswordAuthentication no", "KbdInteractiveAuthentication no", "PermitRootLogin prohibit-password", "MaxStartups 5000", "SetEnv SHLVL=2"}
	if err := errors.Join(os.WriteFile(s.file("known_hosts"), known.Bytes(), 0o600),
		os.WriteFile(s.file("sshd_config"), []byte(strings.Join(config, "\n")+"\n"), 0o600)); err != nil {
		return nil, err
	}
	if err := os.MkdirAll("/run/sshd", 0o755); err != nil { // where sshd gives up its rights
		return nil, err
	}
	s.process = exec.CommandContext(ctx, "/usr/sbin/sshd", "-D", "-e", "-f", s.file("sshd_config"))
	s.process.Stderr = os.Stderr
	if err := s.process.Start(); err != nil {
		return nil, err
	}
	return s, s.answers(ctx)
}

func (s *sshServer) file(name string) string { return filepath.Join(s.dir, name) }

// answers waits until the server does.
func (s *sshServer) answers(ctx context.Context) (err error) {
	for range 500 {
		var conn net.Conn
		if conn, err = new(net.Dialer).DialContext(ctx, "tcp", s.hosts[0]); err == nil {
			return conn.Close()
		}
		time.Sleep(10 * time.Millisecond)
	}
	return err
}

func (s *sshServer) stop() {
	_ = s.process.Process.Signal(syscall.SIGTERM)
	_ = s.process.Wait()
	_ = os.RemoveAll(s.dir)
}

// used waits until the server has no connections, and returns the CPU time that it and all of its
// processes have used.
func (s *sshServer) used() (time.Duration, error) {
	for range 6000 {
		if len(childrenOf(s.process.Process.Pid)) == 0 {
			p, _ := processOf(s.process.Process.Pid)
			return p.own + p.ended, nil
		}
		time.Sleep(10 * time.Millisecond)
	}
	return 0, errors.New("connections to the ssh server do not end")
}

// childrenOf returns the processes whose parent a process is.
func childrenOf(parent int) (children []int) {
	all, _ := filepath.Glob("/proc/[0-9]*") // the pattern is right
	for _, path := range all {
		pid, _ := strconv.Atoi(filepath.Base(path))
		if p, ok := processOf(pid); ok && p.parent == parent {
			children = append(children, pid)
		}
	}
	return children
}

// onEach calls do for each host, so many at a time.
func (s *sshServer) onEach(atATime int, do func(address string) error) error {
	var all sync.WaitGroup
	places := make(chan struct{}, atATime)
	failed := make([]error, len(s.hosts))
	for i, address := range s.hosts {
		places <- struct{}{}
		all.Go(func() {
			defer func() { <-places }()
			failed[i] = do(address)
		})
	}
	all.Wait()
	return errors.Join(failed...)
}
