//go:build linux && services

package crash_test

import (
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/waybill-dev/waybill/internal/childtest"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/test/chaos"
)

// refused runs a command line that cannot work and returns what it said.
func refused(t *testing.T, status int, p *project, home string, args ...string) string {
	t.Helper()
	command, output := waybill(childtest.Context(t), p, home, args...)
	err := command.Run()
	exited, ok := errors.AsType[*exec.ExitError](err)
	if !ok || exited.ExitCode() != status {
		t.Fatalf("waybill %s: %v, want exit status %d\n%s", strings.Join(args, " "), err, status, output)
	}
	if n := strings.Count(output.String(), "waybill: "); n != 1 {
		t.Errorf("waybill %s printed %d errors, want one:\n%s", strings.Join(args, " "), n, output)
	}
	return output.String()
}

// shipped ships and wants it to end well.
func shipped(t *testing.T, p *project, home string, args ...string) string {
	t.Helper()
	command, output := waybill(childtest.Context(t), p, home, append([]string{"ship"}, args...)...)
	if err := command.Run(); err != nil {
		t.Fatalf("ship: %v\n%s", err, output)
	}
	return output.String()
}

func wantText(t *testing.T, got, want string) {
	t.Helper()
	if !strings.Contains(got, want) {
		t.Errorf("got %q, want it to say %q", got, want)
	}
}

func TestDamagedLogIsRefusedAndKept(t *testing.T) {
	t.Parallel()
	p := newProject(t)
	p.commit(t, 1)
	home := filepath.Join(p.dir, ".waybill")
	if err := os.MkdirAll(home, 0o700); err != nil {
		t.Fatal(err)
	}
	damaged := []byte(strings.Repeat("this is not a database ", 500))
	log := filepath.Join(home, "waybill.db")
	if err := os.WriteFile(log, damaged, 0o600); err != nil {
		t.Fatal(err)
	}
	wantText(t, refused(t, fault.ExitUnavailable, p, home, "ship"), "waybill.db")
	if kept, err := os.ReadFile(log); err != nil || string(kept) != string(damaged) {
		t.Errorf("the damaged file was changed (%v)", err)
	}
}

func TestFullDiskLosesNothing(t *testing.T) {
	t.Parallel()
	p := newProject(t)
	p.commit(t, 1)
	home := t.TempDir()
	disk, err := chaos.NewDisk(home, 6)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := disk.Close(); err != nil {
			t.Error(err)
		}
	})
	stopServices(t, p, home)
	shipped(t, p, home)
	check := &checker{}
	check.onSQLite(t, home, check.look)

	if err := disk.Fill(); err != nil {
		t.Fatal(err)
	}
	p.commit(t, 2)
	wantText(t, refused(t, fault.ExitUnavailable, p, home, "ship"), "disk")
	if err := disk.Free(); err != nil { // SQLite itself needs some room to open a log
		t.Fatal(err)
	}
	check.onSQLite(t, home, check.look)

	label := p.git(t, "log", "-1", "--format=%h")
	shipped(t, p, home)
	check.onSQLite(t, home, func(t *testing.T) {
		check.look(t)
		check.finished(t, 2)
	})
	hostsRun(t, home, label)
}

func TestPortInUseIsNamed(t *testing.T) {
	t.Parallel()
	p := newProject(t)
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	said := refused(t, fault.ExitUnavailable, p, filepath.Join(p.dir, ".waybill"), "up", "--listen", listener.Addr().String())
	wantText(t, said, listener.Addr().String())
}

func TestMissingPostgreSQLIsNamed(t *testing.T) {
	t.Parallel()
	p := newProject(t)
	p.commit(t, 1)
	said := refused(t, fault.ExitUnavailable, p, filepath.Join(p.dir, ".waybill"), "ship", "--store",
		"postgres://waybill:secret@127.0.0.1:1/waybill")
	wantText(t, said, "no PostgreSQL answers on 127.0.0.1:1")
	if strings.Contains(said, "secret") {
		t.Errorf("the password shows: %s", said)
	}
}

func TestHostWithoutPermissionFailsItsDeployment(t *testing.T) {
	t.Parallel()
	p := newProject(t)
	name := strings.Replace(projectFiles["waybill.yaml"], `"local://oak"`, `"local:///proc/oak"`, 1)
	name = strings.Replace(name, "retries: 5", "retries: 0", 1)
	if err := os.WriteFile(filepath.Join(p.dir, "waybill.yaml"), []byte(name), 0o644); err != nil {
		t.Fatal(err)
	}
	p.commit(t, 1)
	home := filepath.Join(p.dir, ".waybill")
	command, output := waybill(childtest.Context(t), p, home, "ship")
	err := command.Run()
	if exited, ok := errors.AsType[*exec.ExitError](err); !ok || exited.ExitCode() != fault.ExitFailed {
		t.Fatalf("ship: %v, want exit status %d\n%s", err, fault.ExitFailed, output)
	}
	wantText(t, output.String(), "/proc/oak")
	wantText(t, output.String(), "waybill deployment retry hello#1")
}
