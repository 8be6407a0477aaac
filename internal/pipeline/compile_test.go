package pipeline

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/waybill-dev/waybill/internal/admission"
)

// TestCompileNamesEveryFault has every fault that Compile finds, with its exact scope and text.
func TestCompileNamesEveryFault(t *testing.T) {
	t.Parallel()
	deploys := func(name string, after ...string) Stage { return hostStage(name, after, group("all", name)) }
	arch := func(name, arch string) Host { h := host(name); h.Arch = arch; return h }
	unqueued := promotes("x", "eu")
	unqueued.Queue = NoQueue
	tests := []struct {
		row  string
		d    Definition
		want []string
	}{
		{"4: no stages", Definition{}, []string{"stages: no stages"}},
		{"4: two kinds", Definition{Stages: []Stage{{Name: "x", Kind: BuildStage, Build: &Build{}, Groups: []Group{{}}}}},
			[]string{`stages[0]: stage "x" needs either build or hosts`}},
		{"4: build behind hosts",
			Definition{Stages: []Stage{deploys("beta"), {Name: "pack", Kind: BuildStage, After: []string{"beta"}, Build: &Build{}}}},
			[]string{`stages[1]: stage "pack" builds after "beta" deploys: builds come first`}},
		{"5: unknown", Definition{Stages: []Stage{deploys("beta"), deploys("prod", "bata")}},
			[]string{`stages[1].after[0]: stage "bata" not found (did you mean "beta"?)`}},
		{"5: itself", Definition{Stages: []Stage{deploys("beta", "beta")}}, []string{`stages[0].after[0]: stage "beta" comes after itself`}},
		{"5: twice", Definition{Stages: []Stage{deploys("beta"), deploys("prod", "beta", "beta")}},
			[]string{`stages[1].after[1]: stage "beta" is named twice`}},
		{"5: cycle", Definition{Stages: []Stage{deploys("beta", "prod"), deploys("prod", "beta"), deploys("end", "prod")}},
			[]string{"stages[0].after: cycle: beta -> prod -> beta"}},
		{"5: two cycles",
			Definition{Stages: []Stage{deploys("a", "c"), deploys("b", "a"), deploys("c", "b"), deploys("x", "y"), deploys("y", "x")}},
			[]string{"stages[0].after: cycle: a -> b -> c -> a", "stages[3].after: cycle: x -> y -> x"}},
		{"7: arch that no build makes", Definition{Stages: []Stage{buildStage("amd64"),
			hostStage("prod", []string{"build"}, Group{Name: "east", Hosts: []Host{arch("elm", "arm64")}})}},
			[]string{`stages[1].groups[0].hosts[0].arch: host "elm" is arm64, but "build" makes amd64`}},
		{"7: which of several",
			Definition{Stages: []Stage{buildStage("amd64", "arm64"), hostStage("prod", []string{"build"}, group("east", "elm"))}},
			[]string{`stages[1].groups[0].hosts[0]: host "elm" needs arch: "build" makes amd64 and arm64`}},
		{"9: twice in a stage", Definition{Service: Service{Name: "shop"},
			Stages: []Stage{hostStage("prod", nil, group("east", "elm"), Group{Name: "west", Hosts: []Host{{Name: "fir", URL: "local://elm"}}})}},
			[]string{`stages[0].groups[1].hosts[0].url: elm and fir both run "shop" at local://elm: set service.name`}},
		{"9: in two stages", Definition{Service: Service{Name: "shop"},
			Stages: []Stage{deploys("beta"), hostStage("prod", nil, group("all", "beta"))}},
			[]string{`warning: stages[1].groups[0].hosts[0].url: local://beta runs "shop" in beta and prod`}},
		{"11: chain", Definition{Stages: []Stage{{Name: "x", Kind: HostStage, Chain: longChain(61)}}},
			[]string{"stages[0].steps: chain has 61 steps, at most 60"}},
		{"15: approvals of a group", admitted(nil, &admission.Approval{Count: 3, By: []string{"ana", "group:ops"}}), nil},
		{"15: approvals", admitted(nil, &admission.Approval{Count: 3, By: []string{"ana", "bob"}}),
			[]string{"stages[0].approval.count: 3 approvals wanted, 2 people may give them"}},
		{"15: schedule of a window", admitted([]admission.Window{{Schedule: "@daily"}, {Schedule: "0 9 * *"}}, nil),
			[]string{"stages[0].windows[1].schedule: want five fields (minute hour day month weekday), found 4"}},
		{"15: time zone of a window", admitted([]admission.Window{{Schedule: "@daily", Timezone: "Europe/Stokholm"}}, nil),
			[]string{`stages[0].windows[0].timezone: time zone "Europe/Stokholm" not found: want one such as Europe/Stockholm, or UTC`}},
		{"15: windows", admitted(slices.Repeat([]admission.Window{{Schedule: "@daily"}}, 21), nil),
			[]string{`stages[0].windows: stage "beta" has 21 windows, at most 20`}},
		{"3: gate twice", Definition{Stages: []Stage{{Name: "x", Kind: GateStage, Gates: []Gate{{Name: "g"}, {Name: "h"}, {Name: "g"}}}}},
			[]string{`stages[0].gates[2].name: gate "g" is already defined in stage "x"`}},
		{"4: hosts in a gate stage", Definition{Stages: []Stage{{Name: "x", Kind: GateStage, Groups: []Group{{}}}}},
			[]string{`stages[0]: stage "x" needs either build or hosts`}},
		{"4: queue of an environment", Definition{Stages: []Stage{unqueued}},
			[]string{`stages[0].queue: stage "x" promotes to an environment, so its queue is fifo or latest`}},
		{"4: a target of two stages", Definition{Stages: []Stage{promotes("x", "eu"), promotes("y", "us", "eu")}},
			[]string{`stages[1].environment.targets[1]: stage "x" promotes to HelmRelease podinfo in eu/podinfo too`}},
		{"4: an environment without its kind", Definition{Stages: []Stage{{Name: "x", Kind: GateStage, Environment: &Environment{}}}},
			[]string{`stages[0]: stage "x" is of the kind environment if and only if it has one`}},
		{"4: a build with a gate", Definition{Stages: []Stage{{Name: "x", Kind: BuildStage, Build: &Build{}, Gates: []Gate{{Name: "g"}}}}},
			[]string{`stages[0]: stage "x" builds: gates and bake belong to stages with hosts, or to a stage of their own`}},
		{"15: waves without sizes", Definition{Stages: []Stage{hostStage("x", nil, Group{Name: "all", Waves: &Waves{}})}},
			[]string{"stages[0].groups[0].waves: waves of x/all need sizes"}},
		{"16: unknown", batched([]string{"beta", "prud"}), []string{`batches[0].stages[1]: stage "prud" not found (did you mean "prod"?)`}},
		{"16: not connected", batched([]string{"prod", "beta"}),
			[]string{`batches[0].stages[1]: batch "live": "beta" does not come after "prod"`}},
		{"16: single entry", batched([]string{"prod", "cluster"}, "audit", ""),
			[]string{`batches[0].stages: batch "live": "audit" leads into it past its first stage`}},
		{"16: single exit", batched([]string{"prod", "cluster"}, "", "notify"),
			[]string{`batches[0].stages: batch "live": "notify" leaves it before its last stage`}},
		{"16: overlap", Definition{Stages: []Stage{deploys("a"), deploys("prod", "a"), deploys("c", "prod")},
			Batches: []Batch{{Name: "a", Stages: []string{"a", "prod"}}, {Name: "b", Stages: []string{"prod", "c"}}}},
			[]string{`batches[1].stages: batches "a" and "b" overlap in "prod"`}},
	}
	for _, test := range tests {
		t.Run(test.row, func(t *testing.T) {
			t.Parallel()
			plan, problems := Compile(test.d)
			var got []string
			for _, p := range problems {
				got = append(got, p.String())
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			if (plan == nil) != (problems.Err() != nil) {
				t.Errorf("plan %v with %v", plan, problems)
			}
		})
	}
}

func admitted(windows []admission.Window, approval *admission.Approval) Definition {
	s := hostStage("beta", nil, group("all", "beta"))
	s.Windows, s.Approval = windows, approval
	return Definition{Stages: []Stage{s}}
}

func longChain(n int) []Step {
	var steps []Step
	for i := range n {
		steps = append(steps, Step{Name: fmt.Sprint(i), Event: fmt.Sprintf("host-%d", i)})
	}
	return steps
}

// batched is beta → prod → cluster with a batch, and perhaps a stage that leads into cluster and one that leaves prod.
func batched(stages []string, around ...string) Definition {
	d := Definition{Stages: []Stage{hostStage("beta", nil), hostStage("prod", []string{"beta"}), hostStage("cluster", []string{"prod"})},
		Batches: []Batch{{Name: "live", Stages: stages, Queue: FIFO}}}
	if len(around) == 0 {
		return d
	}
	if around[0] != "" {
		d.Stages = append(d.Stages, hostStage(around[0], nil))
		d.Stages[2].After = append(d.Stages[2].After, around[0])
	}
	if around[1] != "" {
		d.Stages = append(d.Stages, hostStage(around[1], []string{"prod"}))
	}
	return d
}

// TestCompileAnswersForAnyDefinition checks that any definition yields a graph or a fault, and
// never a panic.
func TestCompileAnswersForAnyDefinition(t *testing.T) {
	t.Parallel()
	name := rapid.SampledFrom([]string{"", "a", "b", "c", "build"})
	rapid.Check(t, func(t *rapid.T) {
		d := Definition{Pipeline: name.Draw(t, "pipeline")}
		for range rapid.IntRange(0, 4).Draw(t, "stages") {
			s := Stage{Name: name.Draw(t, "stage"), Kind: rapid.SampledFrom([]StageKind{"", BuildStage, HostStage, GateStage}).Draw(t, "kind"),
				After: rapid.SliceOfN(name, 0, 3).Draw(t, "after")}
			if rapid.Bool().Draw(t, "build") {
				s.Build = &Build{External: rapid.Bool().Draw(t, "external"), Artifacts: []Artifact{{Label: name.Draw(t, "label")}}}
			}
			for range rapid.IntRange(0, 2).Draw(t, "gates") {
				s.Gates = append(s.Gates, Gate{Name: name.Draw(t, "gate")})
			}
			for range rapid.IntRange(0, 2).Draw(t, "groups") {
				g := Group{Name: name.Draw(t, "group")}
				for range rapid.IntRange(0, 2).Draw(t, "hosts") {
					g.Hosts = append(g.Hosts, Host{Name: name.Draw(t, "host"),
						URL: rapid.SampledFrom([]string{"", "x", "local://a", "ssh://u@[::1]", "ssh://h:22/x"}).Draw(t, "url")})
				}
				if rapid.Bool().Draw(t, "waves") {
					g.Waves = &Waves{Sizes: make([]Limit, rapid.IntRange(0, 2).Draw(t, "sizes"))}
				}
				s.Groups = append(s.Groups, g)
			}
			d.Stages = append(d.Stages, s)
		}
		for range rapid.IntRange(0, 2).Draw(t, "batches") {
			d.Batches = append(d.Batches, Batch{Name: name.Draw(t, "batch"), Stages: rapid.SliceOfN(name, 0, 3).Draw(t, "range")})
		}
		plan, problems := Compile(d)
		if (plan == nil) != (problems.Err() != nil) {
			t.Fatalf("plan %v with %v", plan, problems)
		}
	})
}

func TestDefinitionSurvivesJSON(t *testing.T) {
	t.Parallel()
	want := greeter()
	text, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	var got Definition
	if err := json.Unmarshal(text, &got); err != nil {
		t.Fatal(err)
	}
	again, err := json.Marshal(got)
	if err != nil || string(again) != string(text) {
		t.Errorf("read back as %s, want %s (%v)", again, text, err)
	}
}

func TestResourceIsAddressAndService(t *testing.T) {
	t.Parallel()
	d := Definition{Pipeline: "shop", Service: Service{Name: "web"}, Vars: map[string]string{"a": "pipeline", "b": "pipeline"}}
	stage := &Stage{Name: "prod", Vars: map[string]string{"b": "stage", "c": "stage"}}
	g := &Group{Service: &Service{Name: "api"}, Vars: map[string]string{"c": "group", "d": "group"}}
	tests := []struct {
		host Host
		want string
	}{
		{Host{URL: "local://oak"}, "local://oak api"},
		{Host{URL: "local:///srv/bench/"}, "local:///srv/bench api"},
		{Host{URL: "ssh://deploy@Elm.example.net"}, "elm.example.net:22 api"},
		{Host{URL: "ssh://elm.example.net:2222"}, "elm.example.net:2222 api"},
		{Host{URL: "ssh://[2001:db8::1]", Service: &Service{Name: "db"}}, "[2001:db8::1]:22 db"},
	}
	for _, test := range tests {
		if got := d.ResourceOf(stage, g, &test.host).String(); got != test.want {
			t.Errorf("%s: got %s, want %s", test.host.URL, got, test.want)
		}
	}
	if got := d.ResourceOf(stage, &Group{}, &Host{URL: "local://x"}).String(); got != "local://x web" {
		t.Errorf("without overrides: got %s", got)
	}
	h := &Host{Vars: map[string]string{"d": "host"}}
	want := map[string]string{"a": "pipeline", "b": "stage", "c": "group", "d": "host"}
	if diff := cmp.Diff(want, d.VarsOf(stage, g, h)); diff != "" {
		t.Errorf("vars, -want +got:\n%s", diff)
	}
}
