package pool

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/waybill-dev/waybill/internal/promotion"
)

// Bounds of the kept part of an object.
const (
	maxText       = 256 // bytes of a message, a revision or another text
	maxConditions = 64
	maxHistory    = 64 // rows that are read
)

// Kinds with a meaning of their own.
const (
	helmGroup = "helm.toolkit.fluxcd.io"
	helmKind  = "HelmRelease"
	argoGroup = "argoproj.io"
	argoKind  = "Application"
)

// AppState returns the part of an application's object that decisions need. A status of another form than that of the
// Flux controllers is Malformed, which names the field.
func AppState(object *unstructured.Unstructured) promotion.AppState {
	r := reader{}
	metadata := r.object(object.Object, "metadata")
	spec := r.object(object.Object, "spec")
	status := r.object(object.Object, "status")
	app := promotion.AppState{
		UID:             r.text(metadata, "metadata.uid"),
		Generation:      r.number(metadata, "metadata.generation", 0),
		Deleting:        metadata["deletionTimestamp"] != nil,
		Suspended:       r.flag(spec, "spec.suspend"),
		Observed:        r.number(status, "status.observedGeneration", -1),
		Applied:         r.text(status, "status.lastAppliedRevision"),
		Attempted:       r.text(status, "status.lastAttemptedRevision"),
		AttemptedDigest: r.text(status, "status.lastAttemptedRevisionDigest"),
		AppliedOrigin:   r.text(status, "status.lastAppliedOriginRevision"),
	}
	if app.Attempted == app.Applied {
		app.Attempted = app.Applied // one text in memory
	}
	app.HasApplied = status["lastAppliedRevision"] != nil
	app.HasAttempted = status["lastAttemptedRevision"] != nil
	r.conditions(status, &app)
	switch kind := object.GroupVersionKind(); {
	case kind.Group == helmGroup && kind.Kind == helmKind:
		// Other kinds of Flux have a history of another form.
		app.Helm = true
		app.HasHistory = status["history"] != nil || !app.HasApplied
		app.History = r.history(status)
	case kind.Group == argoGroup && kind.Kind == argoKind:
		app.NotReconciledYet = "Applications of Argo CD are not supported yet"
	}
	app.Malformed = r.wrong
	return app
}

// reader reads fields of any JSON and keeps the first mistake.
type reader struct{ wrong string }

func (r *reader) fail(path, want string) {
	if r.wrong == "" {
		r.wrong = path + ": " + want
	}
}

// last returns the last name of a path.
func last(path string) string { return path[strings.LastIndexByte(path, '.')+1:] }

// object returns an object by the path of its field; nil if there is none.
func (r *reader) object(in map[string]any, path string) map[string]any {
	value := in[last(path)]
	found, ok := value.(map[string]any)
	if value != nil && !ok {
		r.fail(path, "want an object")
	}
	return found
}

func (r *reader) list(in map[string]any, path string) []any {
	value := in[last(path)]
	found, ok := value.([]any)
	if value != nil && !ok {
		r.fail(path, "want a list")
	}
	return found
}

func (r *reader) flag(in map[string]any, path string) bool {
	value := in[last(path)]
	found, ok := value.(bool)
	if value != nil && !ok {
		r.fail(path, "want true or false")
	}
	return found
}

func (r *reader) number(in map[string]any, path string, absent int64) int64 {
	switch value := in[last(path)].(type) {
	case nil:
		return absent
	case int64:
		return value
	case float64:
		if whole := int64(value); float64(whole) == value {
			return whole
		}
	}
	r.fail(path, "want a whole number")
	return absent
}

// text returns a text of at most maxText bytes.
func (r *reader) text(in map[string]any, path string) string {
	value := in[last(path)]
	found, ok := value.(string)
	switch {
	case value != nil && !ok:
		r.fail(path, "want a string")
	case len(found) > maxText:
		r.fail(path, fmt.Sprintf("longer than %d bytes", maxText))
		return ""
	}
	return found
}

// conditions reads the three conditions that count.
func (r *reader) conditions(status map[string]any, app *promotion.AppState) {
	all := r.list(status, "status.conditions")
	if len(all) > maxConditions {
		r.fail("status.conditions", fmt.Sprintf("more than %d", maxConditions))
		return
	}
	for i, one := range all {
		path := fmt.Sprintf("status.conditions[%d]", i)
		fields, ok := one.(map[string]any)
		if !ok {
			r.fail(path, "want an object")
			continue
		}
		switch r.text(fields, path+".type") {
		case "Ready":
			app.Ready = r.condition(fields, path)
		case "Stalled":
			app.Stalled = r.condition(fields, path)
		case "Reconciling":
			app.Reconciling = r.text(fields, path+".status") == "True"
		}
	}
}

func (r *reader) condition(fields map[string]any, path string) promotion.Condition {
	message, ok := fields["message"].(string)
	if fields["message"] != nil && !ok {
		r.fail(path+".message", "want a string")
	}
	return promotion.Condition{
		Status:   intern(r.text(fields, path+".status")),
		Reason:   intern(r.text(fields, path+".reason")),
		Message:  cut(message, maxText),
		Observed: r.number(fields, path+".observedGeneration", 0),
	}
}

// history reads the newest release and the next older one that is deployed: older rows decide nothing.
func (r *reader) history(status map[string]any) []promotion.Release {
	var kept []promotion.Release
	for i, one := range r.list(status, "status.history") {
		if i == maxHistory {
			break
		}
		path := fmt.Sprintf("status.history[%d]", i)
		fields, ok := one.(map[string]any)
		if !ok {
			r.fail(path, "want an object")
			continue
		}
		release := promotion.Release{
			Status:       intern(r.text(fields, path+".status")),
			ChartVersion: intern(r.text(fields, path+".chartVersion")),
			AppVersion:   intern(r.text(fields, path+".appVersion")),
			OCIDigest:    intern(r.text(fields, path+".ociDigest")),
		}
		if i == 0 || release.Status == "deployed" {
			kept = append(kept, release)
		}
		if len(kept) == 2 || i == 0 && release.Status == "deployed" {
			break
		}
	}
	return kept
}

// cut returns at most n bytes of text, whole characters, as memory of its own.
func cut(text string, n int) string {
	if len(text) <= n {
		return text
	}
	for n > 0 && !utf8.RuneStart(text[n]) {
		n--
	}
	return strings.Clone(text[:n])
}
