package definition_test

import (
	"fmt"
	"testing"
	"time"
	_ "time/tzdata" // the zones are the same on every machine

	"github.com/google/go-cmp/cmp"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/definition"
	"github.com/waybill-dev/waybill/internal/pipeline"
)

func TestOverridesOfSingleFields(t *testing.T) {
	t.Parallel()
	d, problems := read(`pipeline: p
service: {exec: [a, "${x}"], ready: {for: 1s}, secrets: {S: {file: "s/${stage}"}}}
vars: {x: 1, y: 1}
retry: {backoff: {retries: 5}}
steps: [replicate, deploy, {name: warm, run: [w, "$${x}"], retry: {attemptTimeout: 1m}}]
stages:
- {name: build, build: b.yml, retry: {deadline: 1d12h}, artifacts: {any: x}}
- name: beta
  vars: {y: 2}
  service: {restart: none}
  retry: {backoff: {initial: 1s}}
  groups:
  - name: g
    service: {name: other}
    hosts: [{name: h, url: "local:///srv/h", vars: {x: 7}, service: {ready: {within: 9s}}}]
`)
	if err := problems.Err(); err != nil {
		t.Fatal(err)
	}
	target, err := definition.Resolve(&d, "p/beta/g/h", definition.Revision{Label: "r1", Release: "r1-abc"})
	if err != nil {
		t.Fatal(err)
	}
	want := pipeline.Service{Name: "other", Manager: "process", Exec: []string{"a", "7"}, Restart: "none",
		Secrets: map[string]string{"S": "s/beta"},
		Ready:   pipeline.Ready{For: action.Duration(time.Second), Within: action.Duration(9 * time.Second)}}
	if diff := cmp.Diff(want, target.Service); diff != "" {
		t.Errorf("service (-want +got)\n%s", diff)
	}
	warm := target.Chain[2]
	if diff := cmp.Diff([]string{"w", "${x}"}, warm.Run); diff != "" {
		t.Error(diff)
	}
	if p := warm.Policy; p.Retries != 5 || p.Initial != action.Duration(time.Second) || p.AttemptTimeout != action.Duration(time.Minute) {
		t.Errorf("policy %+v", p)
	}
	if p := d.Stages[0].Build.Policy; p.Retries != 0 || p.Deadline != action.Duration(36*time.Hour) {
		t.Errorf("policy of a build %+v", p)
	}
	wantVars := map[string]string{"x": "7", "y": "2", "host": "h", "stage": "beta", "group": "g", "address": "127.0.0.1",
		"revision": "r1", "release": "r1-abc"}
	if diff := cmp.Diff(wantVars, target.Vars); diff != "" {
		t.Error(diff)
	}
}

// TestUnitAndExecReplaceEachOther: the innermost level that has either decides, and with it who starts the service.
func TestUnitAndExecReplaceEachOther(t *testing.T) {
	t.Parallel()
	d, problems := read(`pipeline: p
service: {exec: [a]}
stages:
- name: beta
  hosts: ["local://oak"]
- name: prod
  service: {unit: "p@1.service"}
  test: [{tcp: "127.0.0.1:1"}]
  hosts: [{name: elm, url: "local://elm"}, {name: fir, url: "local://fir", service: {exec: [b]}}]
`)
	if err := problems.Err(); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{"p/beta/all/oak": "process [a]", "p/prod/all/elm": "systemd p@1.service",
		"p/prod/all/fir": "process [b]"} {
		at, _ := d.Place(path)
		s := d.ServiceOf(at.Stage, at.Group, at.Host)
		got := s.Manager + " " + s.Unit
		if len(s.Exec) > 0 {
			got += fmt.Sprint(s.Exec)
		}
		if got != want {
			t.Errorf("%s: %s, want %s", path, got, want)
		}
	}
}

// TestEnvIsOverriddenByName: the innermost text of a name holds, also where an outer one would not expand.
func TestEnvIsOverriddenByName(t *testing.T) {
	t.Parallel()
	d, problems := read(testPipeline("vars: {port: 1}\n"+
		"service: {env: {A: \"on ${port}\", B: \"${undefined}\", C: 8, D: \"$${x}\"}}\n"+test, `name: beta
service: {env: {B: beta}}
groups:
- name: g
  service: {env: {E: ""}}
  hosts: [{url: "local://h", vars: {port: 2}, service: {env: {C: "of ${host}"}}}, "local://i"]`))
	if err := problems.Err(); err != nil {
		t.Fatal(err)
	}
	for host, want := range map[string]map[string]string{
		"h": {"A": "on 2", "B": "beta", "C": "of h", "D": "${x}", "E": ""},
		"i": {"A": "on 1", "B": "beta", "C": "8", "D": "${x}", "E": ""},
	} {
		target, err := definition.Resolve(&d, "p/beta/g/"+host, definition.Revision{Label: "r1", Release: "r1-abc"})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, target.Service.Env); diff != "" {
			t.Errorf("env of %s (-want +got)\n%s", host, diff)
		}
	}
	if got := d.Service.Env["C"]; got != "8" || len(d.Service.Env) != 4 {
		t.Errorf("a host's override changed the pipeline's env: %v", d.Service.Env)
	}
}
