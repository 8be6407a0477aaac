package main

import (
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/waybill-dev/waybill/test/testbed"
	"github.com/waybill-dev/waybill/test/testbed/promotion"
	"github.com/waybill-dev/waybill/test/testbed/visitor"
)

// demo is the worked example in front of a visitor.
type demo struct {
	*visitor.Visit
	world   *promotion.World
	waybill *promotion.Waybill
	visitor *testbed.GitHost
}

const version = "6.6.0"

func (d *demo) run(t testing.TB) {
	d.Printf("Starting a management cluster, two leaf clusters, Flux for each, and a Git host with the repository apps/fleet.\n")
	began := time.Now()
	d.world = promotion.New(t)
	d.world.Install(t, promotion.Pace{Settle: "2s", Soak: "10s"})
	terminal := visitor.OpenTerminal(t)
	d.waybill = d.world.Waybill(t, d.Program, []string{"up"}, terminal.Theirs)
	d.visitor = d.world.Host.As(t, "visitor")
	d.world.Repository.Allow(t, "visitor", "write")
	d.Printf("After %s: podinfo 6.5.4 runs in dev, staging (leaf-eu) and prod (leaf-eu, leaf-us).\n\n", time.Since(began).Round(time.Second))
	login := terminal.Login(t)
	d.world.Await(t, promotion.Step{Name: "Waybill shows that 6.5.4 has gone through the pipeline", Holds: func() bool {
		out, err := d.waybill.Command(t, "pipeline", "show", d.world.ID()).CombinedOutput()
		return err == nil && strings.Contains(string(out), "run 1: 6.5.4")
	}})
	d.Printf("  open %s&next=%s\n\n", login, url.QueryEscape("/pipelines/"+d.world.ID()))

	d.world.Push(t, promotion.Dev, version)
	d.Report("pushed %s to dev", version)
	for _, step := range d.world.Story(t, version, func(pull testbed.Pull) { d.merge(t, pull) }) {
		d.world.Await(t, step)
		d.Report("%s", step.Name)
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
	d.Printf("\n  prod waits for a person to merge %s\n  press Enter to merge it as user visitor, or type elsewhere:\n"+
		"  curl -u visitor:%s --json '{\"do\":\"merge\"}' %s/api/v1/repos/apps/fleet/pulls/%d/merge\n\n",
		pull.URL, d.visitor.Password, d.visitor.URL, pull.Number)
	again := time.NewTicker(500 * time.Millisecond)
	defer again.Stop()
	for {
		select {
		case <-d.Enter:
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
	d.Printf("\n$ waybill pipeline show %s\n%s", d.world.ID(), out)
}

// suggest prints commands to try next.
func (d *demo) suggest() {
	d.Printf("\nTry next, in another terminal:\n")
	for _, command := range []string{
		"pipeline show apps:podinfo",
		"deployment why apps:podinfo prod",
		`pipeline freeze apps:podinfo --until 10m --reason "audit"`,
		"pipeline thaw apps:podinfo",
		"deployment rollback apps:podinfo prod --to 6.5.4",
	} {
		d.Printf("  %s %s --home %s\n", d.Program, command, d.waybill.Home)
	}
	d.Printf("Enter merges the pull requests that are open then. Ctrl-C ends everything.\n")
}

// pause waits for the end. At each Enter it merges all open pull requests.
func (d *demo) pause(t testing.TB) {
	for {
		select {
		case _, more := <-d.Enter:
			if !more {
				return
			}
			for _, pull := range d.world.Repository.Pulls(t, "open") {
				d.world.Repository.As(d.visitor).Merge(t, pull.Number, "merge")
				d.Report("merged %s", pull.URL)
			}
		case <-t.Context().Done():
			return
		}
	}
}
