package definition_test

import (
	"fmt"
	"testing"
	"time"
	_ "time/tzdata" // the zones are the same on every machine

	"github.com/google/go-cmp/cmp"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/admission"
	"github.com/waybill-dev/waybill/internal/cron"
	"github.com/waybill-dev/waybill/internal/definition"
	"github.com/waybill-dev/waybill/internal/yamltree"
)

func TestLocate(t *testing.T) {
	t.Parallel()
	node, _ := yamltree.Parse("waybill.yaml", []byte(greeter), yamltree.PipelineFile)
	for path, want := range map[string]string{
		"stages[1].groups[0].hosts[0].url": "9:17", // the short form
		"stages[2].groups[1].hosts[0]":     "13:26",
		"stages[1].after[0]":               "8:3", // left out
		"stages[9]":                        "5:1",
		"":                                 "1:1",
	} {
		at := definition.Locate(node, path)
		if got := fmt.Sprintf("%d:%d", at.Line, at.Column); got != want {
			t.Errorf("%s is at %s, want %s", path, got, want)
		}
	}
}

func TestNamesThatStagesAndGroupsHad(t *testing.T) {
	t.Parallel()
	d, problems := read(testPipeline(test, "name: live\nwas: [prod, old]\ngroups: [{name: app, was: [web], hosts: []}]", beta))
	if problems.Err() != nil {
		t.Fatal(problems)
	}
	want := [][]string{{"prod", "old"}, {"web"}, nil}
	if diff := cmp.Diff(want, [][]string{d.Stages[0].Was, d.Stages[0].Groups[0].Was, d.Stages[1].Was}); diff != "" {
		t.Errorf("had (-want +got):\n%s", diff)
	}
}

func TestWindowsAndApprovals(t *testing.T) {
	t.Parallel()
	d, problems := read(testPipeline(test, beta+"\napproval: {}", `name: prod
hosts: ["local://elm"]
windows: [{kind: Allow, schedule: "0 9 * * 1-5", duration: 7h, timezone: Europe/Stockholm, reason: office hours}, {kind: Deny, schedule: "@yearly", duration: 7d}]
approval: {count: 2, by: [ana, bob], self: true}`))
	if err := problems.Err(); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(&admission.Approval{Count: 1}, d.Stages[0].Approval); diff != "" {
		t.Error(diff)
	}
	want := []admission.Window{
		{Kind: cron.Allow, Schedule: "0 9 * * 1-5", Duration: action.Duration(7 * time.Hour), Timezone: "Europe/Stockholm",
			Reason: "office hours"},
		{Kind: cron.Deny, Schedule: "@yearly", Duration: action.Duration(7 * 24 * time.Hour), Timezone: "UTC"},
	}
	if diff := cmp.Diff(want, d.Stages[1].Windows); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(&admission.Approval{Count: 2, By: []string{"ana", "bob"}, Self: true}, d.Stages[1].Approval); diff != "" {
		t.Error(diff)
	}
}

func FuzzRead(f *testing.F) {
	f.Add(greeter)
	f.Add("pipeline: p\nsteps: {}\nstages: [{name: a, hosts: {}}, 3, {build: {}, groups: [x]}]\n")
	f.Add("stages: [{hosts: [{service: 3, vars: [], url: []}], groups: {}}]\n" +
		"service: {hooks: 3, ready: [], secrets: [], shared: {}}\ntest: {}\nbatches: [3]\n")
	f.Fuzz(func(t *testing.T, text string) {
		_, problems := read(text)
		for _, p := range problems {
			if p.Text == "" {
				t.Errorf("a fault without text: %+v", p)
			}
		}
	})
}
