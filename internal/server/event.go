package server

import (
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/waybill-dev/waybill/internal/cloudevent"
	"github.com/waybill-dev/waybill/internal/config"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/listener"
	"github.com/waybill-dev/waybill/internal/obs"
	"github.com/waybill-dev/waybill/internal/operation"
	"github.com/waybill-dev/waybill/internal/service"
)

// eventPath is the place of events, in front of the access rules: senders have tokens that permit nothing else, and may have no
// way to send a header.
const eventPath = operation.Prefix + "/events/"

// Parts of a request with events.
const (
	maxEvents    = 1 << 20          // bytes of a body
	actionHeader = "Waybill-Action" // ids of the actions, in the order of the events
	unmatched    = "-"              // in actionHeader: an event that the filter does not match
	tokenQuery   = "access_token"
)

// receiveEvents stores the actions of CloudEvents. Its answer has no body, since a CloudEvent there would count as a reply.
func (s *Server) receiveEvents(w http.ResponseWriter, r *http.Request) error {
	name := r.PathValue("trigger")
	t, unknown := s.service.Trigger(name)
	if err := s.access.admitSender(r, t); err != nil {
		return err
	}
	if unknown != nil {
		return unknown
	}
	deliveries, err := s.deliver(w, r, t)
	if err != nil {
		s.options.Metrics.Received(name, refusalOf(err), 1)
		return s.withoutCause(r, err)
	}
	ids, matched := make([]string, len(deliveries)), false
	for i, d := range deliveries {
		ids[i] = unmatched
		if !d.ActionID.IsZero() {
			ids[i], matched = d.ActionID.String(), true
		}
		s.options.Metrics.Received(name, outcomeOf(d), 1)
	}
	if matched {
		w.Header().Set(actionHeader, strings.Join(ids, ","))
	}
	w.WriteHeader(http.StatusAccepted)
	return nil
}

// withoutCause returns the error for a sender: of a log or a store that is away it does not have the addresses, which the log of
// this process gets.
func (s *Server) withoutCause(r *http.Request, err error) error {
	if !fault.Is(err, fault.LedgerUnavailable) && (!fault.Is(err, fault.Unavailable) || errors.Is(err, service.ErrBacklog)) {
		return err
	}
	s.options.Log.WarnContext(r.Context(), "events cannot be stored", obs.Error(err))
	return fault.New(fault.CodeOf(err), "the event cannot be stored now").WithHint("send it again later")
}

// deliver reads the events of a request and stores their actions. Few large bodies are decoded at a time.
func (s *Server) deliver(w http.ResponseWriter, r *http.Request, t config.Trigger) ([]service.Delivery, error) {
	if coding := r.Header.Get("Content-Encoding"); coding != "" && coding != "identity" {
		return nil, fault.New(fault.BadMediaType, "the content coding %.40q is not known: send the body as it is", coding)
	}
	body, err := readBody(w, r, maxEvents)
	if err != nil {
		return nil, err
	}
	leave, err := s.service.AcquireDecoding(r.Context(), body)
	if err != nil {
		return nil, err
	}
	defer leave()
	events, _, err := cloudevent.Read(r.Header, body)
	if err != nil {
		return nil, err
	}
	return s.service.ReceiveEvents(r.Context(), t, events)
}

// outcomeOf names the outcome of an event in metrics.
func outcomeOf(d service.Delivery) string {
	switch {
	case d.ActionID.IsZero():
		return "unmatched"
	case d.Repeated:
		return "repeated"
	case d.Faulty:
		return "failed"
	default:
		return "accepted"
	}
}

// refusalOf names the outcome of a refused request in metrics.
func refusalOf(err error) string {
	if fault.Is(err, fault.Unavailable) || fault.Is(err, fault.LedgerUnavailable) {
		return "unavailable"
	}
	return "refused"
}

// admitSender returns an error unless a request has a token with the scope execute, the home's token, or a key of the trigger: in its
// header or, as senders may be able to send no header, in its address. One that is right suffices. The zero Trigger has no keys.
func (a *access) admitSender(r *http.Request, t config.Trigger) error {
	var refusal error = fault.New(fault.Unauthorized, "an event needs a token with the scope %q, or a key of the trigger", service.ScopeExecute).
		WithHint("send Authorization: Bearer …, or ?%s=…", tokenQuery)
	query, _ := url.ParseQuery(r.URL.RawQuery) // a part that cannot be read has no token
	headers := slices.Clone(r.Header.Values("Authorization"))
	for _, token := range query[tokenQuery] {
		headers = append(headers, "Bearer "+token)
	}
	for _, header := range headers[:min(len(headers), mostTokens)] {
		if token, ok := strings.CutPrefix(header, "Bearer "); ok && hasKey(t, token) {
			return nil
		}
		identity, err := a.identify((&http.Request{Header: http.Header{"Authorization": {header}}}).WithContext(r.Context()))
		switch {
		case err == nil && identity.Has(service.ScopeExecute):
			return nil
		case err == nil:
			_, refusal = service.Require(service.WithIdentity(r.Context(), identity), service.ScopeExecute)
		case !fault.Is(err, fault.Unauthorized):
			refusal = fault.New(fault.CodeOf(err), "tokens cannot be checked now").WithHint("send the event again later")
		}
	}
	if fault.Is(refusal, fault.Unauthorized) {
		if err := a.senders.Take(listener.SourceOf(r)); err != nil {
			return err
		}
	}
	return refusal
}

// mostTokens bounds the tokens of a request, since each may cost a read of the log.
const mostTokens = 2

// hasKey reports whether a token is a key of the trigger.
func hasKey(t config.Trigger, token string) bool {
	hash := sha256.Sum256([]byte(token))
	return slices.ContainsFunc(t.Keys, func(key [sha256.Size]byte) bool { return subtle.ConstantTimeCompare(key[:], hash[:]) == 1 })
}

// eventOperation describes the requests with events.
func eventOperation() *huma.Operation {
	answers := hookAnswers(maxEvents)
	header := func(name, description string) map[string]*huma.Param {
		return map[string]*huma.Param{name: {Description: description, Schema: &huma.Schema{Type: huma.TypeString}}}
	}
	answers["202"] = &huma.Response{Description: "The actions are stored, or no event matches the filter",
		Headers: header(actionHeader, "id of the action; of a batch the ids in order, comma-separated, - for an event that does not match")}
	answers["400"] = &huma.Response{Description: "Not CloudEvents 1.0"}
	answers["403"] = &huma.Response{Description: "The token lacks the scope execute"}
	answers["415"] = &huma.Response{Description: "An event format that is not known here"}
	answers["503"] = &huma.Response{Description: "The log is away, or the trigger's backlog is reached", Headers: header("Retry-After", "seconds")}
	body := hookBody(maxEvents, "a CloudEvent 1.0 in binary or structured form, or a batch", &huma.Schema{})
	body.Content = map[string]*huma.MediaType{"*/*": {Schema: &huma.Schema{}},
		"application/cloudevents+json": {Schema: &huma.Schema{Type: huma.TypeObject}}, "application/cloudevents-batch+json": {Schema: &huma.Schema{Type: huma.TypeArray}}}
	return &huma.Operation{OperationID: "receive-events", Path: eventPath + "{trigger}",
		Summary:     "Do the action of a trigger of server.yaml for a CloudEvent, once for each event however often it is delivered",
		Security:    []map[string][]string{{tokenScheme: {string(service.ScopeExecute)}}, {keyScheme: {}}},
		RequestBody: body, Responses: answers}
}
