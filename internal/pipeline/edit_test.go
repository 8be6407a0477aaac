package pipeline

import (
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/waybill-dev/waybill/internal/action"
)

// TestFoldingAnEditLaysADeploymentOutOnce however many steps the edit leaves out of it, so that the cost of folding an
// edit grows with its rows and not with their square.
func TestFoldingAnEditLaysADeploymentOutOnce(t *testing.T) {
	t.Parallel()
	const stages = 20
	d := Definition{Pipeline: "shop", Order: Runnable, Service: Service{Name: "shop"}}
	for i := range stages {
		s := hostStage(fmt.Sprintf("s%d", i), nil, group("all", fmt.Sprintf("a%d", i), fmt.Sprintf("b%d", i)))
		s.Queue = NoQueue
		d.Stages = append(d.Stages, s)
	}
	w := newWorld(t, d)
	w.create(1, 1)
	for range 3 { // the first host of each stage is replicated, deployed and tested
		for _, step := range w.decide().Work {
			w.done(step.StepKey)
		}
	}
	w.decide()
	next := clone(&d)
	for i := range next.Stages {
		next.Stages[i].Chain = chain(HostReplicated, HostDeployed, "host-warmed", HostTested)
	}
	before, rows := w.engine.deployments[1].epoch, len(w.log)
	w.define(next)
	if got, want := len(w.log)-rows, 1+2*stages; got != want {
		t.Fatalf("the edit has %d rows, want %d: a step is introduced and left out in each stage", got, want)
	}
	if laid := w.engine.deployments[1].epoch - before; laid != 1 {
		t.Errorf("the deployment was laid out %d times, want once", laid)
	}
}

// TestDifferenceNamesWhatChangedAboutSteps once for all steps and stages that it is the same for.
func TestDifferenceNamesWhatChangedAboutSteps(t *testing.T) {
	t.Parallel()
	old := Definition{Pipeline: "shop", Stages: []Stage{hostStage("beta", nil), hostStage("prod", []string{"beta"})}}
	next := clone(&old)
	for i := range next.Stages {
		for c := range next.Stages[i].Chain {
			next.Stages[i].Chain[c].Policy.Retries = 5
			next.Stages[i].Chain[c].Policy.Max = action.Duration(time.Minute)
		}
	}
	next.Stages[1].Chain[0], next.Stages[1].Chain[1] = next.Stages[1].Chain[1], next.Stages[1].Chain[0]
	got := difference(&old, &next)
	want := []string{
		"retries of replicate, deploy, test in beta: 0 -> 5",
		"longest back-off of replicate, deploy, test in beta: 0s -> 1m0s",
		"steps of prod: replicate, deploy, test -> deploy, replicate, test",
		"retries of deploy, replicate, test in prod: 0 -> 5",
		"longest back-off of deploy, replicate, test in prod: 0s -> 1m0s",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("difference (-want +got):\n%s", diff)
	}
}

// TestDifferenceNamesWhatChangedInEnv at the level that has a service of its own, without the values.
func TestDifferenceNamesWhatChangedInEnv(t *testing.T) {
	t.Parallel()
	env := func(pairs ...string) Service {
		s := Service{Name: "shop", Env: map[string]string{}}
		for i := 0; i < len(pairs); i += 2 {
			s.Env[pairs[i]] = pairs[i+1]
		}
		return s
	}
	own := func(s Service) *Service { return &s }
	old := Definition{Pipeline: "shop", Service: env("A", "1", "B", "2"), Stages: []Stage{
		hostStage("beta", nil, group("all", "oak")), hostStage("prod", []string{"beta"}, group("all", "elm", "fir"))}}
	next := clone(&old)
	next.Service = env("B", "3", "C", "4")
	next.Stages[0].Service = own(env("A", "1", "B", "2")) // as before, but its own
	next.Stages[1].Groups[0].Service = own(env("A", "1", "B", "2", "D", "5"))
	next.Stages[1].Groups[0].Hosts[1].Service = own(env("B", "2"))
	next.Stages[1].Groups[0].Hosts[1].Service.Restart = "none"
	got := difference(&old, &next)
	want := []string{
		"+ env D of prod/all",
		"- env A of prod/all/fir",
		"service of prod/all/fir changed",
		"- env A",
		"env B changed",
		"+ env C",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("difference (-want +got):\n%s", diff)
	}
}

// TestDifferenceKnowsEveryFieldOfAStep so that no change of a chain is "no change to what runs".
func TestDifferenceKnowsEveryFieldOfAStep(t *testing.T) {
	t.Parallel()
	for _, of := range []func(*Step) reflect.Value{
		func(s *Step) reflect.Value { return reflect.ValueOf(s).Elem() },
		func(s *Step) reflect.Value { return reflect.ValueOf(&s.Policy).Elem() },
	} {
		for i := range of(&Step{}).NumField() {
			var next Step
			field, name := of(&next).Field(i), of(&next).Type().Field(i).Name
			switch field.Kind() {
			case reflect.String:
				field.SetString("x")
			case reflect.Int, reflect.Int64:
				field.SetInt(1)
			case reflect.Float64:
				field.SetFloat(1)
			case reflect.Bool:
				field.SetBool(true)
			case reflect.Slice:
				field.Set(reflect.MakeSlice(field.Type(), 1, 1))
				if field.Type().Elem().Kind() == reflect.String {
					field.Index(0).SetString("x")
				}
			case reflect.Struct: // the policy: its fields are next
				continue
			default:
				t.Fatalf("%s is a %s: teach this test about it", name, field.Kind())
			}
			if name != "Event" && len(stepFields(&Step{}, &next)) == 0 { // another event is another step
				t.Errorf("a changed %s makes no difference", name)
			}
		}
	}
}
