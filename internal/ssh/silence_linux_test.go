//go:build services

package ssh_test

import (
	"bytes"
	"crypto/rand"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/ssh"
	"github.com/waybill-dev/waybill/internal/ssh/sshtest"
)

// TestANetworkThatSwallowsEverythingIsFoundOut: packets get lost without an error at either side. Commands that wait, that send and
// that are about to begin all end, and the next user gets a new connection.
func TestANetworkThatSwallowsEverythingIsFoundOut(t *testing.T) {
	t.Parallel()
	s := sshtest.Start(t)
	p, target := reach(t, s, func(c *ssh.Config, _ *ssh.Target) { c.KeepAlive = 50 * time.Millisecond })
	h := host(t, p, target)
	begun := make(chan struct{}, 2)
	ended := make(chan error, 3)
	run := func(line string, stdin io.Reader) {
		out := &firstWrite{first: sync.OnceFunc(func() { begun <- struct{}{} })}
		_, err := h.Run(t.Context(), []string{"sh", "-c", line}, stdin, out, nil)
		ended <- err
	}
	sent := make([]byte, 64<<20) // more than all buffers on the way
	_, _ = rand.Read(sent)
	go run("echo begun; exec sleep 60", nil)
	go run("echo begun; sleep 1; cat", bytes.NewReader(sent))
	<-begun
	<-begun
	s.Swallow(true)
	go run("echo too late", nil)
	for range 3 {
		if err := <-ended; !fault.Is(err, fault.Unavailable) || fault.IsPermanent(err) || !strings.Contains(err.Error(), s.Address) {
			t.Errorf("%v, want an error that passes and names the host", err)
		}
	}
	s.Swallow(false)
	if out, _ := shell(t, host(t, p, target), "echo again"); out != "again\n" || s.Accepted() != 2 {
		t.Errorf("%q over %d connections", out, s.Accepted())
	}
}

// TestASlowHostKeepsItsConnection: a host that answers late, but before three intervals are over, is not given up.
func TestASlowHostKeepsItsConnection(t *testing.T) {
	t.Parallel()
	s := sshtest.Start(t)
	p, target := reach(t, s, func(c *ssh.Config, _ *ssh.Target) { c.KeepAlive = 3 * time.Second })
	h := host(t, p, target)
	shell(t, h, "true")
	s.Swallow(true)
	time.AfterFunc(4*time.Second, func() { s.Swallow(false) })
	if out, _ := shell(t, h, "echo here"); out != "here\n" || s.Accepted() != 1 {
		t.Errorf("%q over %d connections, want 1", out, s.Accepted())
	}
}

// TestAHostThatIsNotThere: nothing answers the first packet. The attempt to reach it ends after ten seconds.
func TestAHostThatIsNotThere(t *testing.T) {
	t.Parallel()
	s := sshtest.Start(t)
	p, target := reach(t, s)
	s.Swallow(true)
	_, err := p.Host(t.Context(), target)
	if !fault.Is(err, fault.Unavailable) || fault.IsPermanent(err) || !strings.Contains(err.Error(), "no answer within 10s") {
		t.Errorf("%v, want an error that passes", err)
	}
	s.Swallow(false)
	if out, _ := shell(t, host(t, p, target), "echo there"); out != "there\n" {
		t.Errorf("%q", out)
	}
}
