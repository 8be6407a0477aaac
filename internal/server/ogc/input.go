package ogc

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"mime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/waybill-dev/waybill/internal/catalog"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/server"
)

// Bounds of inputs by reference.
const (
	largestReference = 16 << 20 // bytes
	fetchTimeout     = 30 * time.Second
	fetchesAtOnce    = 4
)

// resolve makes the inputs' values of what the request says of them: values as they are, qualified values, and what
// references lead to. The error is every fault at once.
func (a *API) resolve(ctx context.Context, given map[string]json.RawMessage, w catalog.Workflow) (json.RawMessage, error) {
	declared := map[string]catalog.Value{}
	for _, v := range w.Inputs() {
		declared[v.Name] = v
	}
	resolver := resolver{api: a, slots: make(chan struct{}, fetchesAtOnce)}
	values := make(map[string]json.RawMessage, len(given))
	var all sync.WaitGroup
	for _, name := range slices.Sorted(maps.Keys(given)) {
		all.Go(func() {
			value, err := resolver.value(ctx, given[name], declared[name].Schema)
			resolver.mu.Lock()
			defer resolver.mu.Unlock()
			values[name] = value
			if err != nil {
				resolver.problems = append(resolver.problems, fault.Problem{Code: "inputs", Scope: "inputs/" + name, Text: err.Error()})
			}
		})
	}
	all.Wait()
	if err := resolver.problems.Err(); err != nil {
		return nil, server.BadParameters(errorsOf(err, w, values, resolver.problems))
	}
	return json.Marshal(values)
}

// errorsOf adds what is wrong with the inputs that could be read.
func errorsOf(err error, w catalog.Workflow, values map[string]json.RawMessage, problems fault.Problems) error {
	unread := map[string]bool{}
	for _, p := range problems {
		unread[strings.TrimPrefix(p.Scope, "inputs/")] = true
	}
	for name := range values {
		if unread[name] {
			values[name] = json.RawMessage("null")
		}
	}
	raw, marshalErr := json.Marshal(values)
	if marshalErr != nil {
		return err
	}
	_, more := w.Prepare(raw)
	found, ok := more.(fault.Problems) //nolint:errorlint // Prepare returns them as they are
	if !ok {
		return err
	}
	for _, p := range found {
		if name, _, _ := strings.Cut(strings.TrimPrefix(p.Scope, "inputs/"), "/"); !unread[name] {
			problems = append(problems, p)
		}
	}
	return problems.Err()
}

// resolver reads values of one request.
type resolver struct {
	api      *API
	slots    chan struct{}
	mu       sync.Mutex
	problems fault.Problems
}

// value is one input's value, or each of a list's.
func (s *resolver) value(ctx context.Context, raw json.RawMessage, schema map[string]any) (json.RawMessage, error) {
	if list, ok := listOf(raw); ok {
		items, _ := schema["items"].(map[string]any)
		for i, item := range list {
			value, err := s.one(ctx, item, items)
			if err != nil {
				return raw, fmt.Errorf("%d: %w", i, err)
			}
			list[i] = value
		}
		return json.Marshal(list)
	}
	return s.one(ctx, raw, schema)
}

func listOf(raw json.RawMessage) ([]json.RawMessage, bool) {
	var list []json.RawMessage
	if !bytes.HasPrefix(bytes.TrimSpace(raw), []byte("[")) || json.Unmarshal(raw, &list) != nil {
		return nil, false
	}
	return list, true
}

// qualified is qualifiedInputValue.yaml, and link.yaml.
type qualified struct {
	Value     json.RawMessage `json:"value"`
	Encoding  string          `json:"encoding"`
	MediaType string          `json:"mediaType"`
	Href      string          `json:"href"`
	Type      string          `json:"type"`
}

// one is a value: what a link leads to, what a qualified value holds, or itself. An object that is neither is taken as
// the value that it is.
func (s *resolver) one(ctx context.Context, raw json.RawMessage, schema map[string]any) (json.RawMessage, error) {
	var q qualified
	var keys map[string]json.RawMessage
	if json.Unmarshal(raw, &keys) != nil || keys == nil || json.Unmarshal(raw, &q) != nil {
		return decoded(raw, "", schema)
	}
	switch {
	case q.Value != nil && onlyOf(keys, "value", "mediaType", "encoding", "schema"):
		return decoded(q.Value, q.Encoding, schema)
	case q.Href != "" && onlyOf(keys, "href", "rel", "type", "hreflang", "title"):
		return s.fetch(ctx, q)
	}
	return raw, nil
}

func onlyOf(keys map[string]json.RawMessage, known ...string) bool {
	for key := range keys {
		if !slices.Contains(known, key) {
			return false
		}
	}
	return true
}

// decoded checks a binary value, which is base64 as its schema or its encoding says. It stays text: JSON has no other.
func decoded(raw json.RawMessage, encoding string, schema map[string]any) (json.RawMessage, error) {
	var value string
	if encoding != "base64" && !isBinary(schema) || json.Unmarshal(raw, &value) != nil {
		return raw, nil
	}
	if _, err := base64.StdEncoding.DecodeString(value); err != nil {
		return raw, fmt.Errorf("not base64: %w", err)
	}
	return raw, nil
}

// fetch reads what a link leads to: JSON as it is, text as a string, everything else as base64.
func (s *resolver) fetch(ctx context.Context, link qualified) (json.RawMessage, error) {
	select {
	case s.slots <- struct{}{}:
		defer func() { <-s.slots }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	ctx, stop := context.WithTimeoutCause(ctx, fetchTimeout, fmt.Errorf("%s did not answer within %s", link.Href, fetchTimeout))
	defer stop()
	got, err := s.api.fetcher.Fetch(ctx, link.Href, largestReference)
	if err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return nil, fmt.Errorf("fetch %s: %w", link.Href, err)
	}
	kind := link.Type
	if kind == "" {
		kind = got.MediaType
	}
	name, _, _ := mime.ParseMediaType(kind)
	switch {
	case name == typeJSON || strings.HasSuffix(name, "+json"):
		if !json.Valid(got.Body) {
			return nil, fmt.Errorf("fetch %s: what it answered is no JSON", link.Href)
		}
		return got.Body, nil
	case strings.HasPrefix(name, "text/"):
		return json.Marshal(string(got.Body))
	}
	return json.Marshal(base64.StdEncoding.EncodeToString(got.Body))
}
