package caboose

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/argo"
	"github.com/waybill-dev/waybill/internal/blob"
)

// slim keeps the fields of a workflow that are read while it runs; the whole is read once, when it is complete.
func slim(w *unstructured.Unstructured) *unstructured.Unstructured {
	kept := &unstructured.Unstructured{Object: map[string]any{"apiVersion": w.GetAPIVersion(), "kind": w.GetKind()}}
	if metadata, ok := w.Object["metadata"].(map[string]any); ok {
		delete(metadata, "managedFields")
		kept.Object["metadata"] = metadata
	}
	for _, path := range [][]string{{"spec", "shutdown"}, {"spec", "activeDeadlineSeconds"},
		{"status", "phase"}, {"status", "message"}, {"status", "progress"}, {"status", "startedAt"}, {"status", "finishedAt"}} {
		if value, found, err := unstructured.NestedFieldNoCopy(w.Object, path...); found && err == nil {
			_ = unstructured.SetNestedField(kept.Object, value, path...) // what it is set in was made here
		}
	}
	return kept
}

// Argo's phases.
const (
	phaseRunning   = "Running"
	phaseSucceeded = "Succeeded"
	phaseFailed    = "Failed"
	phaseError     = "Error"
)

func phaseOf(w *unstructured.Unstructured) string { return text(w.Object, "status", "phase") }

func completed(w *unstructured.Unstructured) bool {
	switch phaseOf(w) {
	case phaseSucceeded, phaseFailed, phaseError:
		return true
	}
	return false
}

// refOf returns where a workflow is, for people.
func refOf(w *unstructured.Unstructured) string { return w.GetNamespace() + "/" + w.GetName() }

// outcomeOf returns the outcome of a completed workflow for its action. Whether a failure was a cancel is the
// ledger's to know.
func outcomeOf(w *unstructured.Unstructured, m made) action.Outcome {
	o := action.Outcome{Ref: refOf(w)}
	if phaseOf(w) == phaseSucceeded {
		o.Kind, o.Output = action.Done, m.output
		if len(m.missing) > 0 {
			o.Code, o.Error = codeArtifact, strings.Join(m.missing, "; ")
		}
		if id, err := action.ParseID(w.GetName()); err == nil && len(o.Output) > blob.Inline {
			o.OutputRef = blob.ActionKey(id, outputsFile) // where it is archived, perhaps later
		}
		return o
	}
	o.Kind, o.Code, o.Error = action.Fatal, "workflow_"+strings.ToLower(phaseOf(w)), messageOf(w)
	if limit := limitOf(w); limit > 0 && moment(w, "finishedAt").Sub(moment(w, "startedAt")) >= limit {
		o.Kind = action.Expired
	}
	if o.Error == "" {
		o.Error = "the workflow ended as " + phaseOf(w) + " without a message"
	}
	return o
}

// progressOf returns how far a workflow has come, per cent; Argo counts its pods, such as 2/5.
func progressOf(w *unstructured.Unstructured) int {
	done, all, _ := strings.Cut(text(w.Object, "status", "progress"), "/")
	n, _ := strconv.Atoi(done) // none is 0
	if of, err := strconv.Atoi(all); err == nil && of > 0 && n > 0 {
		return min(n, of) * 100 / of
	}
	return 0
}

// outputsFile is the file of an action in the blob store that has the outputs of its work.
const outputsFile = "outputs.json"

// limitOf returns how long the workflow may take, by itself or by its template; zero: no limit.
func limitOf(w *unstructured.Unstructured) time.Duration {
	for _, spec := range [][]string{{"spec"}, {"status", "storedWorkflowTemplateSpec"}} {
		switch limit := field(w.Object, append(spec, "activeDeadlineSeconds")...).(type) {
		case int64:
			return time.Duration(limit) * time.Second
		case float64:
			return time.Duration(limit) * time.Second
		}
	}
	return 0
}

// moment returns a time of the status; zero when it is not there.
func moment(w *unstructured.Unstructured, name string) time.Time {
	at, err := time.Parse(time.RFC3339, text(w.Object, "status", name))
	if err != nil {
		return time.Time{} // not there yet
	}
	return at.UTC()
}

// parametersOf returns the workflow's output parameters by name: those of its entry point, and
// those that it made global. A value that is a JSON object or list is that, not its text.
func parametersOf(w *unstructured.Unstructured) map[string]any {
	outputs := map[string]any{}
	for _, one := range outputLists(w, "parameters") {
		parameter, _ := one.(map[string]any)
		name, value := text(parameter, "name"), text(parameter, "value")
		outputs[name] = value
		if structured := json.RawMessage(value); strings.HasPrefix(value, "{") || strings.HasPrefix(value, "[") {
			if json.Valid(structured) {
				outputs[name] = structured
			}
		}
	}
	return outputs
}

// messageOf returns why a workflow failed: the failed pod that finished last, else the workflow's
// own words.
func messageOf(w *unstructured.Unstructured) string {
	var latest, message string
	for _, one := range argo.Nodes(w) {
		node, _ := one.(map[string]any)
		phase := text(node, "phase")
		if text(node, "type") != "Pod" || (phase != phaseFailed && phase != phaseError) || text(node, "message") == "" {
			continue
		}
		if at := text(node, "finishedAt"); at >= latest { // all of one form, in UTC
			latest, message = at, fmt.Sprintf("%s: %s", text(node, "displayName"), text(node, "message"))
		}
	}
	if message == "" {
		message = text(w.Object, "status", "message")
	}
	return message
}

func field(object map[string]any, path ...string) any {
	value, _, _ := unstructured.NestedFieldNoCopy(object, path...) // absent, or of another form: nil
	return value
}

func text(object map[string]any, path ...string) string {
	value, _ := field(object, path...).(string)
	return value
}
