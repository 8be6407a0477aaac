package notification

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/conductor"
	"github.com/waybill-dev/waybill/internal/promotion"
)

// Notices notifies the sinks of pipelines of occasions in their runs. A repetition posts the same id. Safe for concurrent use.
type Notices struct{ Handler }

// Do makes one attempt.
func (h Notices) Do(ctx context.Context, a conductor.Attempt) action.Outcome {
	var n promotion.Notice
	if err := json.Unmarshal(a.Action.Parameters, &n); err != nil {
		return action.Outcome{Kind: action.Fatal, Error: fmt.Sprintf("parameters: %v", err)}
	}
	m := message{id: a.Action.ID, namespace: n.Namespace, sink: n.Sink, text: sentenceOf(n)}
	m.event = map[string]any{"type": noticeType(n.Occasion), "source": "waybill:" + n.Namespace + ":" + n.Pipeline,
		"subject": subjectOf(n), "time": n.At.UTC().Format(time.RFC3339Nano), "data": dataOf(n)}
	return h.post(ctx, m)
}

// noticeType returns the type of the CloudEvent of an occasion, such as waybill.promotion.rolled-back.v1.
func noticeType(occasion string) string {
	var name strings.Builder
	for i, c := range occasion {
		if i > 0 && c >= 'A' && c <= 'Z' {
			name.WriteByte('-')
		}
		name.WriteRune(c)
	}
	return "waybill.promotion." + strings.ToLower(name.String()) + ".v1"
}

// subjectOf returns the environment of a notice, or its run.
func subjectOf(n promotion.Notice) string {
	if n.Env != "" {
		return string(n.Env)
	}
	return fmt.Sprintf("%s:%s#%d", n.Namespace, n.Pipeline, n.Run)
}

// dataOf returns the data of the CloudEvent.
func dataOf(n promotion.Notice) map[string]any {
	data := map[string]any{"namespace": n.Namespace, "pipeline": n.Pipeline, "run": n.Run, "cause": n.Cause, "revision": n.Revision,
		"occasion": n.Occasion, "text": sentenceOf(n)}
	for name, value := range map[string]string{"was": string(n.Was), "environment": string(n.Env), "reason": n.Reason, "message": n.Message,
		"by": n.By, "url": n.URL, "link": n.Link} {
		if value != "" {
			data[name] = value
		}
	}
	return data
}

// sentenceOf returns a notice as a sentence.
func sentenceOf(n promotion.Notice) string {
	text := fmt.Sprintf("%s/%s#%d: ", n.Namespace, n.Pipeline, n.Run)
	switch n.Occasion {
	case "Started":
		text += fmt.Sprintf("%s has started", n.Revision)
		if n.Env != "" {
			text += fmt.Sprintf(" in %s (%s)", n.Env, n.Cause)
		}
	case "Proposed":
		text += fmt.Sprintf("%s is proposed in %s", n.Revision, n.Env)
	case "WaitingApproval":
		text += fmt.Sprintf("%s waits for approval in %s", n.Revision, n.Env)
	case "Promoted":
		text += fmt.Sprintf("%s was promoted in %s", n.Revision, n.Env)
	case "Finished":
		text += fmt.Sprintf("%s has finished", n.Revision)
	case "Failed":
		text += fmt.Sprintf("%s has failed in %s: %s", n.Revision, n.Env, n.Reason)
	case "RolledBack":
		text += fmt.Sprintf("%s was rolled back to %s", n.Env, n.Revision)
	case "Superseded":
		text += fmt.Sprintf("%s was superseded", n.Revision)
	default:
		text += fmt.Sprintf("%s: %s", n.Revision, n.Occasion)
	}
	if n.Message != "" {
		text += ": " + n.Message
	}
	if n.URL != "" && !strings.Contains(n.Message, n.URL) {
		text += ": " + n.URL
	}
	return text
}
