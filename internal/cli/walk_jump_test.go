//go:build services

package cli_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/waybill-dev/waybill/internal/childtest"
	"github.com/waybill-dev/waybill/internal/ssh/sshtest"
)

// jumpStep is something that happens to a host.
type jumpStep struct {
	name string
	do   func(w *jumpWalk)
}

// jumpWalks lists events of hosts that are reached through a jump host. Each limit ends a deployment in another phase.
var jumpWalks = map[string][]jumpStep{
	"up to the switch": {
		{"a deadline while the host is not reached", func(w *jumpWalk) {
			w.lose(true)
			w.limited("deadline: 3s", "")
		}},
		{"a deadline while files are copied", func(w *jumpWalk) {
			w.lose(false)
			w.stall("tar")
			w.limited("deadline: 3s", "")
		}},
		{"a deadline before the switch", func(w *jumpWalk) {
			w.resume()
			w.stall("ln")
			w.limited("deadline: 3s", "")
		}},
		{"the switch continues", func(w *jumpWalk) { w.resume() }},
		{"a deadline in a step of its own before the switch", func(w *jumpWalk) {
			w.limited("deadline: 3s", "steps: [replicate, {name: early, run: [./run.sh]}, deploy]\n")
		}},
		{"a deadline that is too short for ready", func(w *jumpWalk) {
			w.edit("ready: {for: 100ms", "ready: {for: 20s")
			w.limited("deadline: 3s", "")
			w.edit("ready: {for: 20s", "ready: {for: 100ms")
		}},
		{"a deployment without limits", func(w *jumpWalk) { w.ship() }},
	},
	"after the switch": {
		{"a deadline between the switch and the start", func(w *jumpWalk) {
			w.stall("sync")
			w.limitedDuring("deadline: 20s", "", func() {
				w.until("the host is asked to go back", func() bool { return w.has("withdrawn") })
				w.resumeAll()
			})
			w.rest()
		}},
		{"an attempt's limit while it becomes ready", func(w *jumpWalk) {
			w.edit("within: 30s}", `within: 30s, checks: [{tcp: "127.0.0.1:1"}]}, confirm: 35s`)
			w.limited("attemptTimeout: 4s, backoff: {retries: 0}", "")
		}},
		{"a deadline while it becomes ready and the host is lost", func(w *jumpWalk) {
			w.edit("within: 30s", "within: 5s")
			w.edit("confirm: 35s", "confirm: 6s")
			w.limitedDuring("deadline: 25s", "", func() {
				before := w.truth().release
				w.until("the release is switched", func() bool { is := w.truth(); return is.release != before && is.up })
				w.lose(true)
			})
		}},
		{"it has gone back alone", func(w *jumpWalk) {
			w.until("the host goes back", func() bool { return !w.has("revert") })
			w.rest()
			w.lose(false)
			w.edit(`within: 5s, checks: [{tcp: "127.0.0.1:1"}]}, confirm: 6s`, "within: 30s}")
		}},
		{"a deadline in a step of its own", func(w *jumpWalk) {
			w.limited("deadline: 3s", "steps: [replicate, deploy, {name: late, run: [./run.sh]}]\n")
		}},
		{"the service is killed and the host is lost", func(w *jumpWalk) {
			w.kill()
			w.lose(true)
		}},
		{"the host is back without its service", func(w *jumpWalk) { w.lose(false) }},
	},
}

// Hosts that are reached through a jump host are followed through time limits in every phase, and while they are out of reach.
func TestEveryAnswerAgreesWithAHostBehindAJumpHost(t *testing.T) {
	t.Parallel()
	for name, steps := range jumpWalks {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newJumpWalk(t)
			w.agree("the first deployment", "mini/prod/web/h1", w.ship)
			w.edit("name: web", "name: app")
			w.run("pipeline", "apply")
			w.agree("the group has another name", "mini/prod/app/h1", w.ship)
			for _, step := range steps {
				w.agree(step.name, "mini/prod/app/h1", func() { step.do(w) })
			}
		})
	}
}

// jumpWalk is a walk whose host is reached through a jump host, with programs that can be stalled.
type jumpWalk struct {
	*walk
	host  *sshtest.Server
	tools string // folder of the programs
}

func newJumpWalk(t *testing.T) *jumpWalk {
	t.Helper()
	tools := t.TempDir()
	for _, tool := range []string{"tar", "ln", "sync"} {
		path, err := exec.LookPath(tool)
		if err != nil {
			t.Fatal(err)
		}
		script := "#!/bin/sh\n" +
			`while [ -e "$0.stalled" ] && case $1 in -x*|-s|.) ;; *) false ;; esac; do sleep 0.05; done; exec ` + path + ` "$@"` + "\n"
		if err := os.WriteFile(filepath.Join(tools, tool), []byte(script), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	bastion := sshtest.Start(t)
	host := sshtest.Start(t, "ForceCommand PATH="+tools+`:$PATH; export PATH; exec sh -c "$SSH_ORIGINAL_COMMAND"`)
	host.Accept(bastion.Key + ".pub")
	w := &jumpWalk{walk: newWalk(t), host: host, tools: tools}
	w.edit(`{name: h1, url: "local://`+w.srv+`"}`,
		`{name: h1, url: "ssh://`+host.User+"@"+host.Address+`", root: "`+w.srv+`", hostKey: "`+host.Fingerprint()+`"}`)
	w.edit("stages:", `ssh: {identity: "`+bastion.Key+`", jump: "ssh://`+bastion.User+"@"+bastion.Address+`", jumpKey: "`+
		bastion.Fingerprint()+"\"}\nstages:")
	t.Cleanup(w.resumeAll)
	return w
}

// lose cuts the host off, or lets it be reached again.
func (w *jumpWalk) lose(all bool) {
	w.host.Refuse(all)
	w.lost = all
}

// stall makes the host wait where it runs a program: tar to unpack, ln to make a link, or sync for the folder of the service.
func (w *jumpWalk) stall(tool string) {
	w.t.Helper()
	w.must(os.WriteFile(filepath.Join(w.tools, tool+".stalled"), nil, 0o644))
}

func (w *jumpWalk) resumeAll() {
	stalled, _ := filepath.Glob(filepath.Join(w.tools, "*.stalled"))
	for _, file := range stalled {
		_ = os.Remove(file)
	}
}

// resume lets the host continue, and waits until it is at rest.
func (w *jumpWalk) resume() {
	w.t.Helper()
	w.resumeAll()
	w.rest()
}

// has reports whether the host's folder has a file of the host program.
func (w *jumpWalk) has(file string) bool {
	_, err := os.Stat(filepath.Join(w.srv, "mini", ".waybill", file))
	return err == nil
}

// rest waits until no host program is at work, and the service that it has started is up.
func (w *jumpWalk) rest() {
	w.t.Helper()
	lock := filepath.Join(w.srv, "mini", ".waybill", "lock")
	w.until("the host is at rest", func() bool {
		return exec.CommandContext(w.t.Context(), "flock", "-n", lock, "true").Run() == nil && w.truth().up
	})
}

// until waits until the host has done something without a command.
func (w *jumpWalk) until(what string, is func() bool) {
	w.t.Helper()
	ctx, cancel := context.WithTimeoutCause(w.t.Context(), childtest.Limit, childtest.ErrLimit)
	defer cancel()
	for !is() {
		select {
		case <-ctx.Done():
			w.t.Fatalf("%s: %v", what, context.Cause(ctx))
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// limited ships another revision, which must fail by a limit of retry. steps are further lines of the file.
func (w *jumpWalk) limited(retry, steps string) {
	w.t.Helper()
	w.limitedDuring(retry, steps, func() {})
}

// limitedDuring works like limited, and calls during while the deployment runs.
func (w *jumpWalk) limitedDuring(retry, steps string, during func()) {
	w.t.Helper()
	limit := "retry: {" + retry + "}\n" + steps
	w.edit("stages:", limit+"stages:")
	w.change()
	ship := w.command("waybill", "ship", "--yes")
	var out strings.Builder
	ship.Stdout, ship.Stderr = &out, &out
	w.must(ship.Start())
	during()
	err := ship.Wait()
	key, _, _ := strings.Cut(retry, ":")
	if err == nil || !strings.Contains(out.String(), key) || strings.Contains(out.String(), "canceled") {
		w.t.Fatalf("ship did not fail by %s: %v\n%s", key, err, out.String())
	}
	w.edit(limit, "")
}
