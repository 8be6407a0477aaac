package main

import (
	"fmt"
	"io"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/waybill-dev/waybill/test/testbed"
	"github.com/waybill-dev/waybill/test/testbed/promotion"
)

// demo is the worked example in front of a visitor.
type demo struct {
	program string
	out     io.Writer
	enter   <-chan struct{} // the visitor pressed Enter; closed: no visitor is there

	world   *promotion.World
	waybill *promotion.Waybill
	visitor *testbed.GitHost
}

const version = "6.6.0"

func (d *demo) run(t testing.TB) {
	d.printf("Starting a management cluster, two leaf clusters, Flux for each, and a Git host with the repository apps/fleet.\n")
	began := time.Now()
	d.world = promotion.New(t)
	d.world.Install(t, promotion.Pace{Settle: "2s", Soak: "10s"})
	terminal := openTerminal(t)
	d.waybill = d.world.Waybill(t, d.program, []string{"up"}, terminal.theirs)
	d.visitor = d.world.Host.As(t, "visitor")
	d.world.Repository.Allow(t, "visitor", "write")
	d.printf("After %s: podinfo 6.5.4 runs in dev, staging (leaf-eu) and prod (leaf-eu, leaf-us).\n\n", time.Since(began).Round(time.Second))
	login := terminal.login(t)
	d.world.Await(t, promotion.Step{Name: "Waybill shows that 6.5.4 has gone through the pipeline", Holds: func() bool {
		out, err := d.waybill.Command(t, "pipeline", "show", d.world.ID()).CombinedOutput()
		return err == nil && strings.Contains(string(out), "run 1: 6.5.4")
	}})
	d.printf("  open %s&next=%s\n\n", login, url.QueryEscape("/pipelines/"+d.world.ID()))

	d.world.Push(t, promotion.Dev, version)
	d.report("pushed %s to dev", version)
	for _, step := range d.world.Story(t, version, func(pull testbed.Pull) { d.merge(t, pull) }) {
		d.world.Await(t, step)
		d.report("%s", step.Name)
		if step.Then != nil {
			step.Then()
		}
	}
	d.show(t)
	d.suggest()
	d.pause(t)
}

// merge waits until the visitor has merged the pull request of prod, or merges it when Enter is pressed.
func (d *demo) merge(t testing.TB, pull testbed.Pull) {
	// Gitea's button needs scripts, which are built with Node.js and are not there.
	d.printf("\n  prod waits for a person to merge %s\n  press Enter to merge it as user visitor, or type elsewhere:\n"+
		"  curl -u visitor:%s --json '{\"do\":\"merge\"}' %s/api/v1/repos/apps/fleet/pulls/%d/merge\n\n",
		pull.URL, d.visitor.Password, d.visitor.URL, pull.Number)
	again := time.NewTicker(500 * time.Millisecond)
	defer again.Stop()
	for {
		select {
		case <-d.enter:
			d.world.Repository.As(d.visitor).Merge(t, pull.Number, "merge")
			return
		case <-again.C:
			if d.world.Repository.Pull(t, pull.Number).State != "open" {
				return
			}
		case <-t.Context().Done():
			t.Fatal("interrupted")
		}
	}
}

// show prints the pipeline as the command line shows it.
func (d *demo) show(t testing.TB) {
	out, err := d.waybill.Command(t, "pipeline", "show", d.world.ID()).CombinedOutput()
	if err != nil {
		t.Fatalf("waybill pipeline show: %v: %s", err, out)
	}
	d.printf("\n$ waybill pipeline show %s\n%s", d.world.ID(), out)
}

// suggest prints commands to try next.
func (d *demo) suggest() {
	d.printf("\nTry next, in another terminal:\n")
	for _, command := range []string{
		"pipeline show apps:podinfo",
		"deployment why apps:podinfo prod",
		`pipeline freeze apps:podinfo --until 10m --reason "audit"`,
		"pipeline thaw apps:podinfo",
		"deployment rollback apps:podinfo prod --to 6.5.4",
	} {
		d.printf("  %s %s --home %s\n", d.program, command, d.waybill.Home)
	}
	d.printf("Enter merges the pull requests that are open then. Ctrl-C ends everything.\n")
}

// pause waits for the end. At each Enter it merges all open pull requests.
func (d *demo) pause(t testing.TB) {
	for {
		select {
		case _, more := <-d.enter:
			if !more {
				return
			}
			for _, pull := range d.world.Repository.Pulls(t, "open") {
				d.world.Repository.As(d.visitor).Merge(t, pull.Number, "merge")
				d.report("merged %s", pull.URL)
			}
		case <-t.Context().Done():
			return
		}
	}
}

func (d *demo) report(format string, arguments ...any) {
	d.printf(time.Now().Format(time.TimeOnly)+"  "+format+"\n", arguments...)
}

func (d *demo) printf(format string, arguments ...any) {
	fmt.Fprintf(d.out, format, arguments...)
}
