package ogc

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"mime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/waybill-dev/waybill/internal/config"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/service"
	"github.com/waybill-dev/waybill/internal/store"
)

// Bounds of a request's inputs.
const (
	largestLinked = 16 << 20 // bytes of all linked content together
	mostInputs    = 1000
	mostLinks     = 20
	mostValues    = 250_000 // JSON values, with linked content: decoded, a value takes up to a hundred bytes
	fetchTimeout  = 30 * time.Second
	fetchesAtOnce = 4 // fetches for one request
	linkedAtOnce  = 8 // requests whose links are being followed
	linkPatience  = 10 * time.Second
	largeAtOnce   = 2 // large requests being read
	largePatience = 10 * time.Second
)

// resolveInputs returns the values of a request's inputs as one JSON object, from plain values,
// qualified values and links. The error has all faults. Nothing is fetched if the process does not
// know some input.
func (a *API) resolveInputs(ctx context.Context, q request, w config.Process) (json.RawMessage, error) {
	if n := len(q.Inputs); n > mostInputs {
		return nil, fault.New(fault.TooLarge, "the request has %d inputs: want at most %d", n, mostInputs)
	}
	declared := map[string]config.Value{}
	for _, v := range w.Inputs() {
		declared[v.Name] = v
	}
	names := slices.Sorted(maps.Keys(q.Inputs))
	all := make([]*input, len(names))
	links := 0
	for i, name := range names {
		all[i] = readInput(name, q.Inputs[name], declared[name])
		links += all[i].links
	}
	switch {
	case links > mostLinks:
		return nil, fault.New(fault.InvalidParameters, "the inputs have %d links: want at most %d", links, mostLinks)
	case links > 0 && !w.Refuses(names):
		if err := a.fetchAll(ctx, all, q.values); err != nil {
			return nil, err
		}
	}
	return a.assembleInputs(ctx, all, w)
}

// assembleInputs returns one JSON object of the inputs. The error has the faults of all inputs:
// read errors, and violations of the process's schema.
func (a *API) assembleInputs(ctx context.Context, all []*input, w config.Process) (json.RawMessage, error) {
	values := make(map[string]json.RawMessage, len(all))
	unread := map[string]bool{}
	var problems fault.Problems
	for _, in := range all {
		values[in.name] = in.json()
		if err := in.err(); err != nil {
			problems = append(problems, fault.Problem{Code: "inputs", Scope: "inputs/" + in.name, Text: err.Error()})
		}
		if values[in.name] == nil {
			values[in.name], unread[in.name] = json.RawMessage("null"), true
		}
	}
	raw, err := json.Marshal(values)
	if err != nil {
		return nil, fault.New(fault.Invalid, "read the inputs: %w", err)
	}
	if len(unread) == 0 {
		return raw, nil
	}
	_, err = a.service.PrepareJob(ctx, w, raw)
	if found, ok := errors.AsType[fault.Problems](err); ok {
		for _, p := range found {
			if name, _, _ := strings.Cut(strings.TrimPrefix(p.Scope, "inputs/"), "/"); !unread[name] {
				problems = append(problems, p)
			}
		}
	}
	return nil, service.BadParameters(problems.Err())
}

// input holds one input during the reading of its value or list of values.
type input struct {
	name   string
	isList bool
	pieces []piece
	links  int // number of pieces that are links
}

// piece is the value of an input, or one element of its list.
type piece struct {
	value     json.RawMessage // nil: not read yet, or faulty
	link      *qualified      // nil: the value is in the request
	described config.Value
	err       error
}

// readInput reads an input from the request. Links are not followed yet.
func readInput(name string, raw json.RawMessage, described config.Value) *input {
	in := &input{name: name}
	items := []json.RawMessage{raw}
	if list, ok := listOf(raw); ok {
		in.isList, items, described = true, list, described.Item()
	}
	in.pieces = make([]piece, len(items))
	for i, item := range items {
		p := &in.pieces[i]
		p.described = described
		p.readValue(item)
		if p.link != nil {
			in.links++
		}
	}
	return in
}

// listOf returns the elements of a list that may hold links or qualified values. ok is false for
// any other list, which is a plain value.
func listOf(raw json.RawMessage) ([]json.RawMessage, bool) {
	var list []json.RawMessage
	raw = bytes.TrimSpace(raw)
	if !bytes.HasPrefix(raw, []byte("[")) || !bytes.ContainsRune(raw, '{') && !bytes.ContainsRune(raw, '"') ||
		json.Unmarshal(raw, &list) != nil {
		return nil, false
	}
	return list, true
}

// json returns the input's value; nil if a part of it could not be read.
func (in *input) json() json.RawMessage {
	if !in.isList {
		return in.pieces[0].value
	}
	var list bytes.Buffer
	list.WriteByte('[')
	for i, p := range in.pieces {
		if p.value == nil {
			return nil
		}
		if i > 0 {
			list.WriteByte(',')
		}
		list.Write(p.value)
	}
	list.WriteByte(']')
	return list.Bytes()
}

// err returns the first fault of the input.
func (in *input) err() error {
	for i, p := range in.pieces {
		switch {
		case p.err != nil && in.isList:
			return fmt.Errorf("%d: %w", i, p.err)
		case p.err != nil:
			return p.err
		}
	}
	return nil
}

// qualified is qualifiedInputValue.yaml or link.yaml.
type qualified struct {
	Value     json.RawMessage `json:"value"`
	Encoding  string          `json:"encoding"`
	MediaType string          `json:"mediaType"`
	Href      string          `json:"href"`
	Type      string          `json:"type"`
}

// readValue sets the value of the piece, from a plain or a qualified value, or keeps a link for
// later. An object that is neither a link nor a qualified value is a plain value.
func (p *piece) readValue(raw json.RawMessage) {
	var q qualified
	var keys map[string]json.RawMessage
	if !bytes.HasPrefix(bytes.TrimSpace(raw), []byte("{")) || json.Unmarshal(raw, &keys) != nil || json.Unmarshal(raw, &q) != nil {
		p.setValue(raw, "", "")
		return
	}
	switch {
	case q.Value != nil && hasOnly(keys, "value", "mediaType", "encoding", "schema"):
		p.setValue(q.Value, q.MediaType, q.Encoding)
	case q.Href != "" && hasOnly(keys, "href", "rel", "type", "hreflang", "title"):
		p.link = &q
	default:
		p.value = raw
	}
}

// hasOnly reports whether all keys are known.
func hasOnly(keys map[string]json.RawMessage, known ...string) bool {
	for key := range keys {
		if !slices.Contains(known, key) {
			return false
		}
	}
	return true
}

// setValue checks a value against the part of the schema that its media type selects, and sets it.
// A binary value must be base64, and stays a string, since JSON has no binary values.
func (p *piece) setValue(raw json.RawMessage, mediaType, encoding string) {
	chosen, err := p.described.Choose(mediaType)
	if err != nil {
		p.err = err
		return
	}
	var text string
	if (encoding == "base64" || chosen.Binary()) && json.Unmarshal(raw, &text) == nil {
		if _, err := base64.StdEncoding.DecodeString(text); err != nil {
			p.err = fmt.Errorf("not base64: %w", err)
			return
		}
	}
	if mediaType != "" && len(p.described.Alternatives()) > 0 {
		decoder := json.NewDecoder(bytes.NewReader(raw))
		decoder.UseNumber()
		var value any
		if err := decoder.Decode(&value); err != nil {
			p.err = err
			return
		}
		if problems := chosen.Check(value); len(problems) > 0 {
			p.err = fmt.Errorf("as %s: %s", mediaType, problems[0].Text)
			return
		}
	}
	p.value = raw
}

// fetchAll follows the links of a request. values is the number of JSON values in the request
// itself.
func (a *API) fetchAll(ctx context.Context, all []*input, values int) error {
	release, err := a.linked.Acquire(ctx)
	if err != nil {
		return err
	}
	defer release()
	var budget budget
	budget.bytes.Store(largestLinked)
	budget.values.Store(int64(mostValues - values))
	slots := make(chan struct{}, fetchesAtOnce)
	var running sync.WaitGroup
	for _, in := range all {
		for i := range in.pieces {
			p := &in.pieces[i]
			if p.link == nil {
				continue
			}
			slots <- struct{}{} // a fetch frees the slot within its time limit
			running.Go(func() {
				defer func() { <-slots }()
				a.fetch(ctx, p, &budget)
			})
		}
	}
	running.Wait()
	return nil
}

// budget bounds the further content of one request's links.
type budget struct{ bytes, values atomic.Int64 }

var errLinked = fmt.Errorf("the links lead to more than %d bytes together", largestLinked)

// fetch sets the value of a link: JSON as it is, text as a string, everything else as base64.
func (a *API) fetch(ctx context.Context, p *piece, left *budget) {
	link := p.link
	ctx, stop := context.WithTimeoutCause(ctx, fetchTimeout, fmt.Errorf("%s did not answer within %s", link.Href, fetchTimeout))
	defer stop()
	limit := left.bytes.Load()
	if limit <= 0 {
		p.err = errLinked
		return
	}
	got, err := a.fetcher.Fetch(ctx, link.Href, limit)
	switch {
	case err != nil && ctx.Err() != nil:
		err = context.Cause(ctx)
	case err == nil && left.bytes.Add(-int64(len(got.Body))) < 0:
		err = errLinked
	}
	kind := link.Type
	if kind == "" {
		kind = got.MediaType
	}
	var value json.RawMessage
	if err == nil {
		value, err = asJSON(got.Body, kind, left)
	}
	if err != nil {
		p.err = fmt.Errorf("fetch %s: %w", link.Href, err)
		return
	}
	p.setValue(value, kind, "")
}

// asJSON returns content of a media type as a JSON value.
func asJSON(content []byte, kind string, left *budget) (json.RawMessage, error) {
	name, _, _ := mime.ParseMediaType(kind)
	switch {
	case name == typeJSON || strings.HasSuffix(name, "+json"):
		if values, _ := store.MeasureJSON(content); left.values.Add(-int64(values)) < 0 {
			return nil, fmt.Errorf("the inputs have more than %d values together", mostValues)
		}
		if !json.Valid(content) {
			return nil, errors.New("the answer is not valid JSON")
		}
		return content, nil
	case strings.HasPrefix(name, "text/"):
		return json.Marshal(string(content))
	}
	return json.Marshal(base64.StdEncoding.EncodeToString(content))
}
