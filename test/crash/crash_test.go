//go:build linux && services

// Package crash kills Waybill with SIGKILL at random moments, starts it again,
// and judges what the log and the hosts say afterwards. It is the test of the
// promise that Waybill never loses its place.
package crash_test

import (
	"bytes"
	"context"
	"flag"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/waybill-dev/waybill/internal/childtest"
	"github.com/waybill-dev/waybill/internal/ledger"
	"github.com/waybill-dev/waybill/internal/sqlite"
	"github.com/waybill-dev/waybill/test/chaos"
)

var (
	kills = flag.Int("kills", 50, "how often ship is killed")
	seed  = flag.Uint64("seed", 0, "of the random moments; 0: a new one")
)

// binary is the program under test, built once.
var binary string

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(chaos.RunTests(m, "../..", &binary))
}

// waybill returns a command line of the program in the project's folder.
func waybill(ctx context.Context, p *project, home string, args ...string) (*exec.Cmd, *bytes.Buffer) {
	command := exec.CommandContext(ctx, binary, append(args, "--home", home)...)
	command.Dir, command.WaitDelay = p.dir, childtest.Linger
	output := new(bytes.Buffer)
	command.Stdout, command.Stderr = output, output
	return command, output
}

// stopServices ends what the hosts run, at the end of a test.
func stopServices(t *testing.T, p *project, home string, args ...string) {
	t.Cleanup(func() {
		command, output := waybill(childtest.Context(t), p, home, append([]string{"pipeline", "stop", "hello"}, args...)...)
		if err := command.Run(); err != nil {
			t.Errorf("stop the services: %v\n%s", err, output)
		}
	})
}

func TestShipGoesOnAfterKills(t *testing.T) {
	t.Parallel()
	p, random := newProject(t), chaos.Moments(t.Logf, *seed)
	home := filepath.Join(p.dir, ".waybill")
	stopServices(t, p, home)
	check := &checker{}
	for number := int64(1); *kills > 0 || number == 1; number++ {
		label := p.commit(t, int(number))
		for !ship(t, p, home, random) {
			*kills--
			check.onSQLite(t, home, check.look)
		}
		check.onSQLite(t, home, func(t *testing.T) {
			check.look(t)
			check.finished(t, number)
		})
		hostsRun(t, home, label)
		again(t, p, home)
	}
	t.Logf("%d entries", len(check.seen))
}

// ship runs until it is done, or is killed at a random moment; then it reports false.
func ship(t *testing.T, p *project, home string, random *rand.Rand) bool {
	t.Helper()
	command, output := waybill(childtest.Context(t), p, home, "ship")
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- command.Wait() }()
	moment := time.NewTimer(time.Duration(random.IntN(1500)) * time.Millisecond)
	defer moment.Stop()
	if *kills <= 0 {
		moment.Stop()
	}
	limit := time.NewTimer(2 * time.Minute)
	defer limit.Stop()
	select {
	case err := <-ended:
		if err != nil {
			t.Fatalf("ship: %v\n%s", err, output)
		}
		return true
	case <-limit.C:
		_ = command.Process.Kill()
		<-ended
		t.Fatalf("ship does not end:\n%s", output)
	case <-moment.C:
		_ = command.Process.Signal(syscall.SIGKILL)
		<-ended
	}
	return false
}

// again ships what is there already: nothing may happen.
func again(t *testing.T, p *project, home string) {
	t.Helper()
	command, output := waybill(childtest.Context(t), p, home, "ship")
	if err := command.Run(); err != nil || !bytes.Contains(output.Bytes(), []byte("nothing to do")) {
		t.Fatalf("ship again: %v\n%s", err, output)
	}
}

// onSQLite looks at the home's embedded log while no process runs. It skips a home whose process
// was killed before it had one.
func (c *checker) onSQLite(t *testing.T, home string, look func(*testing.T)) {
	t.Helper()
	path := filepath.Join(home, "waybill.db")
	if _, err := os.Stat(path); err != nil {
		return
	}
	driver, err := sqlite.Open(t.Context(), path)
	if err != nil {
		t.Fatalf("open the log after a kill: %v", err)
	}
	c.ledger = ledger.New(driver, ledger.Options{})
	defer c.ledger.Close()
	look(t)
}
