package resource

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kubejson "k8s.io/apimachinery/pkg/util/json"

	"encoding/json"

	"github.com/waybill-dev/waybill/api/kube/v1alpha1"
	"github.com/waybill-dev/waybill/internal/admission"
	"github.com/waybill-dev/waybill/internal/promotion"
)

// The bounds of a pipeline.
const (
	maxEnvironments = 100
	maxTargets      = 2000 // in all environments together
	maxGates        = 20   // in an environment
	maxSinks        = 20
	maxFaults       = 50 // faults reported
	maxName         = 253
	maxText         = 32 << 10 // bytes of a gate's text
	maxURL          = 2048
	maxReason       = 200
	maxItems        = 100 // items in other lists
	day             = 24 * time.Hour
	longest         = 366 * day // bound on durations
)

// Options are settings of the operator, and the time.
type Options struct {
	NoCrossNamespaceRefs bool      // a clusterRef to another namespace is denied
	AllowPlainHTTP       bool      // Git hosts may be reached by http
	Now                  time.Time // windows must start within five years after it
}

// reader collects the faults of one object.
type reader struct {
	Options
	namespace, name string
	faults          Faults
}

// Parse reads a Pipeline. With faults, the result has the parts that could be read, to be observed and shown, but nothing
// may be promoted. Fields that are not known are ignored.
func Parse(obj *unstructured.Unstructured, o Options) (Pipeline, Faults) {
	if obj == nil || obj.Object == nil {
		return Pipeline{}, Faults{{v1alpha1.ReasonInvalidSpec, "spec", "the object is empty"}}
	}
	r := &reader{Options: o}
	p := Pipeline{Namespace: text(obj, "namespace"), Name: text(obj, "name"), UID: text(obj, "uid")}
	p.Generation, _, _ = unstructured.NestedInt64(obj.Object, "metadata", "generation")
	p.CreatedAt, _ = time.Parse(time.RFC3339, text(obj, "creationTimestamp"))
	r.namespace, r.name = p.Namespace, p.Name
	var spec v1alpha1.PipelineSpec
	if err := decode(obj.Object["spec"], &spec); err != nil {
		r.add(fieldOf(err), "%v", err)
	}
	r.pipeline(&p, spec)
	return p, r.faults
}

// text returns a text of the object's metadata; "" if it has none.
func text(obj *unstructured.Unstructured, field string) string {
	value, _, _ := unstructured.NestedString(obj.Object, "metadata", field)
	return value
}

// decode reads a value of the API into a struct. On an error the struct has the fields that could be read.
func decode(value any, into any) error {
	data, err := json.Marshal(value)
	if err != nil {
		return err
	}
	return kubejson.Unmarshal(data, into)
}

// fieldOf returns the path of the field that could not be read.
func fieldOf(err error) string {
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok && wrong.Field != "" {
		return "spec." + wrong.Field
	}
	return "spec"
}

// add reports a fault of the definition.
func (r *reader) add(field, format string, args ...any) {
	r.report(v1alpha1.ReasonInvalidSpec, field, fmt.Sprintf(format, args...))
}

func (r *reader) report(reason, field, text string) {
	if len(r.faults) < maxFaults {
		r.faults = append(r.faults, Fault{reason, field, text})
	}
}

// pipeline reads a definition.
func (r *reader) pipeline(p *Pipeline, spec v1alpha1.PipelineSpec) {
	p.App = r.app(spec.AppRef)
	p.Spec = promotion.Spec{
		Suspend: spec.Suspend,
		Source:  r.source(spec.VersionSource),
		OnNewRevision: oneOf(r, "spec.onNewRevision", promotion.Policy(spec.OnNewRevision),
			promotion.Interrupt, promotion.Finish, promotion.Newest),
		OnDrift:        oneOf(r, "spec.onDrift", promotion.Reaction(spec.OnDrift), promotion.Hold, promotion.Promote),
		OnBackward:     oneOf(r, "spec.onBackward", promotion.Reaction(spec.OnBackward), promotion.Hold, promotion.Promote),
		Settle:         r.duration("spec.settle", spec.Settle, 0, 0),
		RunTimeout:     r.duration("spec.runTimeout", spec.RunTimeout, day, time.Second),
		RolloutTimeout: r.duration("spec.rolloutTimeout", spec.RolloutTimeout, 30*time.Minute, time.Second),
	}
	for i, sink := range capped(r, "spec.notify", spec.Notify, maxSinks) {
		p.Notify = append(p.Notify, r.sink(fmt.Sprintf("spec.notify[%d]", i), sink))
	}
	common := r.windows("spec.windows", spec.Windows)
	if spec.Promotion != nil {
		r.promotion("spec.promotion", *spec.Promotion, promotion.EnvName("")) // also where every environment has its own
	}
	r.environments(p, spec, common)
}

// app reads the name of the application.
func (r *reader) app(ref v1alpha1.LocalAppReference) App {
	version, err := schema.ParseGroupVersion(ref.APIVersion)
	if err != nil || version.Version == "" {
		r.add("spec.appRef.apiVersion", "want a group and version such as kustomize.toolkit.fluxcd.io/v1, found %.100q",
			ref.APIVersion)
	}
	r.required("spec.appRef.kind", ref.Kind)
	if version.Group == "" && ref.Kind == "Secret" {
		r.add("spec.appRef.kind", "a Secret is not an application")
	}
	r.required("spec.appRef.name", ref.Name)
	return App{version.WithKind(ref.Kind), ref.Name}
}

// source reads how revisions are read from the application.
func (r *reader) source(v *v1alpha1.VersionSource) promotion.Source {
	if v == nil {
		return promotion.Source{Type: promotion.SourceRevision}
	}
	s := promotion.Source{Type: oneOf(r, "spec.versionSource.type", promotion.SourceType(v.Type),
		promotion.SourceRevision, promotion.SourceTag, promotion.SourceDigest,
		promotion.SourceChartVersion, promotion.SourceOCIDigest, promotion.SourceAppVersion,
		promotion.SourceOriginRevision, promotion.SourceLabel, promotion.SourceAnnotation, promotion.SourceMarker),
		Key: v.Key, KeepBuild: v.KeepBuild}
	switch keyed := s.Type == promotion.SourceLabel || s.Type == promotion.SourceAnnotation; {
	case keyed:
		r.required("spec.versionSource.key", v.Key)
	case v.Key != "":
		r.add("spec.versionSource.key", "only the types label and annotation have a key")
	}
	return s
}

// environments reads the environments and their order.
func (r *reader) environments(p *Pipeline, spec v1alpha1.PipelineSpec, common admission.Windows) {
	if len(spec.Environments) == 0 {
		r.add("spec.environments", "want at least one environment")
	}
	names, total := map[string]int{}, 0
	for i, e := range capped(r, "spec.environments", spec.Environments, maxEnvironments) {
		at := fmt.Sprintf("spec.environments[%d]", i)
		r.envName(at+".name", e.Name, names)
		more, judged := r.environment(at, e, spec.Promotion)
		judged.DependsOn = r.dependsOn(at, e, p.Spec.Environments)
		judged.Any = oneOf(r, at+".dependsOnMode", e.DependsOnMode, "All", "Any") == "Any"
		judged.Windows = slices.Concat(common, r.windows(at+".windows", e.Windows))
		if n := len(judged.Windows); n > admission.MaxWindows {
			r.add(at+".windows", "%d windows with those of the pipeline, at most %d", n, admission.MaxWindows)
		}
		names[e.Name] = i
		total += len(e.Targets)
		p.Environments, p.Spec.Environments = append(p.Environments, more), append(p.Spec.Environments, judged)
	}
	if total > maxTargets {
		r.add("spec.environments", "%d targets, at most %d", total, maxTargets)
	}
	r.repeated(p.Environments)
}

// repeated reports targets that are the same object, and environments that would share a head branch.
func (r *reader) repeated(environments []Environment) {
	targets, heads := map[promotion.TargetID]string{}, map[[2]string]promotion.EnvName{}
	for i, e := range environments {
		for _, t := range e.Targets {
			if first, taken := targets[t.TargetID]; taken {
				r.add(t.Field, "the same object as %s", first)
				continue
			}
			targets[t.TargetID] = t.Field
		}
		if i == 0 || e.Host == nil {
			continue // nothing is promoted into the first environment
		}
		key := [2]string{e.Host.URL, e.Host.Branch}
		if first, taken := heads[key]; taken {
			field := fmt.Sprintf("spec.environments[%d].promotion.strategy.pull-request.branch", i)
			r.add(field, "environment %q has the branch %q too", first, e.Host.Branch)
		}
		heads[key] = e.Name
	}
}

// dependsOn reads the predecessors of an environment, which come from earlier ones.
func (r *reader) dependsOn(at string, e v1alpha1.Environment, earlier []promotion.Environment) (names []promotion.EnvName) {
	if len(e.DependsOn) == 0 && len(earlier) > 0 {
		return []promotion.EnvName{earlier[len(earlier)-1].Name}
	}
	for i, name := range capped(r, at+".dependsOn", e.DependsOn, maxEnvironments) {
		field := fmt.Sprintf("%s.dependsOn[%d]", at, i)
		is := func(e promotion.Environment) bool { return e.Name == promotion.EnvName(name) }
		switch {
		case !slices.ContainsFunc(earlier, is):
			r.add(field, "no earlier environment is named %.100q", name)
		case slices.Contains(names, promotion.EnvName(name)):
			r.add(field, "%q is named twice", name)
		default:
			names = append(names, promotion.EnvName(name))
		}
	}
	return names
}
