// Package notification is the handler that promotes by notifying others: it writes an Event on the Pipeline, as the alerts
// of existing installations expect, and posts a signed CloudEvent if the strategy has a webhook. The environment counts as
// promoted once both were accepted. A repetition writes the same Event and posts the same id.
package notification

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/conductor"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/kube"
	"github.com/waybill-dev/waybill/internal/promotion"
	"github.com/waybill-dev/waybill/internal/webhook"
)

// secretKey is the key of the Secret that signs.
const secretKey = "secret"

// eventType is the type of the CloudEvent.
const eventType = "waybill.promotion.requested.v1"

// Handler notifies. Safe for concurrent use.
type Handler struct {
	Management *kube.Cluster   // the cluster of the pipelines
	Client     *webhook.Client // reaches webhooks
	PlainHTTP  bool            // webhooks may be reached without TLS
	// Key reads a signing key of the configuration, for stages of a waybill.yaml. They have no Event.
	Key func(ctx context.Context, name string) (string, error)
}

// Do makes one attempt.
func (h Handler) Do(ctx context.Context, a conductor.Attempt) action.Outcome {
	var w promotion.Work
	if err := json.Unmarshal(a.Action.Parameters, &w); err != nil {
		return action.Outcome{Kind: action.Fatal, Error: fmt.Sprintf("parameters: %v", err)}
	}
	if w.Namespace == promotion.StageNamespace && w.Sink == nil {
		return action.Outcome{Kind: action.Fatal, Error: "the notification of a stage has no webhook"}
	}
	if err := h.event(ctx, a.Action.ID, w); err != nil {
		if fault.Is(err, fault.Invalid) {
			return action.Outcome{Kind: action.Fatal, Error: err.Error()}
		}
		return action.Outcome{Kind: action.Retry, Error: err.Error()}
	}
	if w.Sink == nil {
		return action.Outcome{Kind: action.Done}
	}
	return h.post(ctx, message{id: a.Action.ID, namespace: w.Namespace, sink: *w.Sink,
		text: fmt.Sprintf("%s/%s: promote %s in %s", w.Namespace, w.Pipeline, w.Revision, w.Env),
		event: map[string]any{"type": eventType, "source": "waybill:" + w.Namespace + ":" + w.Pipeline, "subject": string(w.Env),
			"time": a.Action.ID.Time().UTC().Format(time.RFC3339Nano),
			"data": map[string]any{"namespace": w.Namespace, "pipeline": w.Pipeline, "environment": w.Env, "revision": w.Revision,
				"was": w.Was, "run": w.Run}}})
}

// message is one request to a sink.
type message struct {
	id        action.ID
	namespace string // namespace of the sink's Secret
	sink      promotion.Sink
	event     map[string]any // its own fields of the CloudEvent
	text      string         // the same for people
}

// event writes the Event on the Pipeline, under a name made from the action's id.
func (h Handler) event(ctx context.Context, id action.ID, w promotion.Work) error {
	if w.Namespace == promotion.StageNamespace {
		return nil
	}
	now := id.Time().UTC().Format(time.RFC3339)
	object := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Event",
		"metadata": map[string]any{"name": w.Pipeline + "." + id.String(), "namespace": w.Namespace,
			"annotations": map[string]any{"environment": string(w.Env), "version": string(w.Revision)}},
		"type": "Normal", "reason": "Promote",
		"message": fmt.Sprintf("Promote pipeline %s/%s to %s with version %s", w.Namespace, w.Pipeline, w.Env, w.Revision),
		"involvedObject": map[string]any{"apiVersion": "pipelines.weave.works/v1alpha1", "kind": "Pipeline",
			"namespace": w.Namespace, "name": w.Pipeline, "uid": w.UID},
		"source":         map[string]any{"component": "waybill"},
		"firstTimestamp": now, "lastTimestamp": now, "count": int64(1),
		"reportingComponent": "waybill", "reportingInstance": "waybill",
	}}
	_, err := h.Management.In(w.Namespace).Events().Create(ctx, object, metav1.CreateOptions{})
	switch {
	case err == nil, apierrors.IsAlreadyExists(err):
		return nil
	case apierrors.IsForbidden(err), apierrors.IsInvalid(err):
		return fault.New(fault.Invalid, "write the Event of %s: %w", w.Pipeline, err)
	}
	return fmt.Errorf("write the Event of %s: %w", w.Pipeline, err)
}

// post sends a message.
func (h Handler) post(ctx context.Context, m message) action.Outcome {
	call, err := h.call(ctx, m)
	if err != nil {
		return action.Outcome{Kind: action.Fatal, Code: "SecretWrong", Error: err.Error()}
	}
	exchange := h.Client.Send(ctx, call)
	if !exchange.Answered() {
		verdict, code, text := exchange.Failure()
		return outcomeOf(verdict, code, text)
	}
	judged := webhook.Judge(nil, webhook.Breaker{}, exchange.Answer())
	text := judged.Why
	if text == "" {
		text = fmt.Sprintf("%s answered %d", call.URL.Host, exchange.Response.Status)
	}
	return outcomeOf(judged.Verdict, "", text)
}

// outcomeOf returns the outcome for a verdict of package webhook.
func outcomeOf(v webhook.Verdict, code, text string) action.Outcome {
	kinds := map[webhook.Verdict]action.OutcomeKind{webhook.Success: action.Done, webhook.Throttle: action.Throttle,
		webhook.Fatal: action.Fatal}
	kind, known := kinds[v]
	if !known {
		kind = action.Retry
	}
	return action.Outcome{Kind: kind, Code: code, Error: text}
}

// call makes the request, signed if the sink names a Secret.
func (h Handler) call(ctx context.Context, m message) (webhook.Call, error) {
	target, err := url.Parse(m.sink.URL)
	if err != nil {
		return webhook.Call{}, err
	}
	if target.Scheme != "https" && !h.PlainHTTP {
		return webhook.Call{}, fmt.Errorf("the webhook's address has no TLS: want https, or promoter.plainHTTP in server.yaml")
	}
	body, contentType, err := m.body()
	if err != nil {
		return webhook.Call{}, err
	}
	call := webhook.Call{Method: http.MethodPost, URL: target, Body: body, Header: http.Header{}}
	if m.sink.Secret != "" {
		key, err := h.key(ctx, m)
		if err != nil {
			return webhook.Call{}, err
		}
		call.Header = webhook.Sign([]webhook.Key{key}, m.id.String(), time.Now(), body)
	}
	call.Header.Set("Content-Type", contentType)
	call.Header.Set("User-Agent", "waybill")
	return call, nil
}

// key returns the key that signs a message.
func (h Handler) key(ctx context.Context, m message) (webhook.Key, error) {
	var text, at string
	if m.namespace == promotion.StageNamespace {
		at = fmt.Sprintf("secret %s of server.yaml", m.sink.Secret)
		var err error
		if text, err = h.Key(ctx, m.sink.Secret); err != nil {
			return webhook.Key{}, err
		}
	} else {
		data, _, err := h.Management.In(m.namespace).Secret(ctx, m.sink.Secret)
		if err != nil {
			return webhook.Key{}, err
		}
		text, at = string(data[secretKey]), fmt.Sprintf("key %s of Secret %s/%s", secretKey, m.namespace, m.sink.Secret)
	}
	key, err := webhook.ParseKey(strings.TrimSpace(text))
	if err != nil {
		return key, fmt.Errorf("%s: %w", at, err)
	}
	return key, nil
}

// body returns the body in the format of the sink.
func (m message) body() (body, contentType string, err error) {
	document := map[string]any{"specversion": "1.0", "id": m.id.String(), "datacontenttype": "application/json"}
	maps.Copy(document, m.event)
	contentType = "application/cloudevents+json"
	if m.sink.Format == "slack" {
		contentType, document = "application/json", map[string]any{"text": slackEscapes.Replace(m.text)}
	}
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	err = encoder.Encode(document)
	return text.String(), contentType, err
}

// slackEscapes takes the meaning of links and mentions from a text.
var slackEscapes = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;")
