//go:build services

package testbed_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/waybill-dev/waybill/test/testbed"
)

// holding makes a test process start a system and wait to be killed.
const holding = "WAYBILL_TESTBED_HOLD"

// TestHold is the process that TestSystemsDieWithTheirTest kills.
func TestHold(t *testing.T) {
	if os.Getenv(holding) == "" {
		return
	}
	bucket := testbed.S3(t)
	fmt.Println("listening:", strings.TrimPrefix(bucket.Endpoint, "http://"))
	_, _ = io.Copy(io.Discard, os.Stdin) // it blocks until the other side is gone
}

func TestSystemsDieWithTheirTest(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	victim := exec.CommandContext(ctx, os.Args[0], "-test.run=^TestHold$")
	victim.Env = append(os.Environ(), holding+"=1", "TMPDIR="+t.TempDir())
	if _, err := victim.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := victim.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := victim.Start(); err != nil {
		t.Fatal(err)
	}
	address := announced(t, out)
	if err := victim.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = victim.Wait() // killed
	mustGoSilent(t, address)
}

func announced(t *testing.T, out io.Reader) string {
	t.Helper()
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if address, ok := strings.CutPrefix(lines.Text(), "listening: "); ok {
			return address
		}
	}
	t.Fatalf("the process started nothing: %v", lines.Err())
	return ""
}

// mustGoSilent waits until no program listens at the address.
func mustGoSilent(t *testing.T, address string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	again := time.NewTicker(10 * time.Millisecond)
	defer again.Stop()
	for {
		connection, err := net.Dial("tcp", address)
		if err != nil {
			return
		}
		connection.Close()
		select {
		case <-again.C:
		case <-ctx.Done():
			t.Fatalf("%s: still answers though its test was killed", address)
		}
	}
}
