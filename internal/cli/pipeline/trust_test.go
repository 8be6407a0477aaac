//go:build services

package pipeline

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/waybill-dev/waybill/internal/cli/clitest"
	"github.com/waybill-dev/waybill/internal/ssh"
	"github.com/waybill-dev/waybill/internal/ssh/sshtest"
)

// behindJump returns a pool, and the accounts of a jump host and of one host behind it, whose keys belong in a file.
func behindJump(t *testing.T) (*ssh.Pool, []sshTarget) {
	t.Helper()
	bastion, inner := sshtest.Start(t), sshtest.Start(t)
	inner.Accept(bastion.Key + ".pub")
	pool := ssh.NewPool(ssh.Config{})
	t.Cleanup(pool.Close)
	known := filepath.Join(t.TempDir(), "known_hosts")
	jump := ssh.Target{Address: bastion.Address, User: bastion.User, Identity: bastion.Key, KnownHosts: known}
	host := ssh.Target{Address: inner.Address, User: inner.User, Identity: bastion.Key, KnownHosts: known, Jump: &jump}
	return pool, []sshTarget{{jumpName, jump}, {"prod/all/elm", host}}
}

// TestOneRunTrustsTheHostsBehindAJumpHost: its key is fetched first, since the others are reached by it.
func TestOneRunTrustsTheHostsBehindAJumpHost(t *testing.T) {
	t.Parallel()
	pool, targets := behindJump(t)
	out, asked := clitest.NewOutput(false), 0
	o := trustOptions{Targets: targets, Show: pool.Show, Store: ssh.Store, Out: out.Printer,
		Ask: func(context.Context, string) bool { asked++; return true }}
	if err := runTrust(t.Context(), o); err != nil || asked != 2 ||
		!strings.Contains(out.Printed.String(), "stored 2 host keys in "+targets[0].KnownHosts) {
		t.Errorf("%v after %d questions:\n%s", err, asked, out.Printed.String())
	}
	if err := runTrust(t.Context(), o); err != nil || asked != 2 || !strings.Contains(out.Printed.String(), "no new keys") {
		t.Errorf("again: %v after %d questions:\n%s", err, asked, out.Printed.String())
	}
}

// TestLoginsAreTriedBeforeADeployment: by the jump host, with the known state of each host and whether it lets us in.
func TestLoginsAreTriedBeforeADeployment(t *testing.T) {
	t.Parallel()
	pool, targets := behindJump(t)
	stranger := filepath.Join(t.TempDir(), "stranger")
	sshtest.Keygen(t, stranger)
	check := func(step string, i int, known, accepted bool, words string) {
		t.Helper()
		l := login(t.Context(), pool, targets[i])
		if l.Known != known || l.Accepted != accepted || !strings.Contains(fmt.Sprint(l), words) {
			t.Errorf("%s: %+v: %s", step, l, l)
		}
	}
	check("nothing is known", 0, false, false, "key not known: the host key of")
	check("nothing is known", 1, false, false, "jump host")
	yes := func(context.Context, string) bool { return true }
	if err := runTrust(t.Context(), trustOptions{Targets: targets, Show: pool.Show, Store: ssh.Store,
		Out: clitest.NewOutput(true).Printer, Ask: yes}); err != nil {
		t.Fatal(err)
	}
	check("all is known", 0, true, true, "lets us in")
	check("all is known", 1, true, true, "lets us in")
	targets[1].Identity = stranger
	check("a stranger's key", 1, true, false, "accepts none of the keys")
	text, err := os.ReadFile(targets[1].KnownHosts)
	if err != nil {
		t.Fatal(err)
	}
	_, theirs, _ := strings.Cut(string(text), "\n")
	name, _, _ := strings.Cut(theirs, " ")
	_, key, _ := strings.Cut(strings.SplitN(string(text), "\n", 2)[0], " ")
	if err := os.WriteFile(targets[1].KnownHosts, []byte(strings.SplitN(string(text), "\n", 2)[0]+"\n"+name+" "+key+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	check("another key", 1, true, false, "has changed")
}
