package pipeline_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/waybill-dev/waybill/internal/pipeline"
)

// linked returns a log of n entries, of which those after the first without have digests.
func linked(n, without int64) (entries []pipeline.Entry, last pipeline.Digest) {
	for seq := int64(1); seq <= n; seq++ {
		e := pipeline.Entry{Pipeline: "greeter", Seq: seq, Deployment: seq % 3, Target: "greeter/prod",
			Event: pipeline.ApprovalGiven, Occurrence: 1,
			Class: pipeline.Note, Revision: 4, Version: 5, At: time.Unix(seq, 6000).UTC(),
			Detail: json.RawMessage(fmt.Sprintf(`{"by":"ana %d"}`, seq))}
		if seq > without {
			e.Digest = e.Link(last)
			last = e.Digest
		}
		entries = append(entries, e)
	}
	return entries, last
}

func TestEveryFieldOfAnEntryIsInItsDigest(t *testing.T) {
	t.Parallel()
	entries, _ := linked(1, 0)
	for name, edit := range map[string]func(*pipeline.Entry){
		"pipeline":              func(e *pipeline.Entry) { e.Pipeline = "other" },
		"seq":                   func(e *pipeline.Entry) { e.Seq++ },
		"deployment":            func(e *pipeline.Entry) { e.Deployment++ },
		"target":                func(e *pipeline.Entry) { e.Target = "greeter/beta" },
		"event":                 func(e *pipeline.Entry) { e.Event = pipeline.ApprovalRejected },
		"occurrence":            func(e *pipeline.Entry) { e.Occurrence++ },
		"class":                 func(e *pipeline.Entry) { e.Class = pipeline.Fact },
		"revision":              func(e *pipeline.Entry) { e.Revision++ },
		"version":               func(e *pipeline.Entry) { e.Version++ },
		"time":                  func(e *pipeline.Entry) { e.At = e.At.Add(time.Microsecond) },
		"detail":                func(e *pipeline.Entry) { e.Detail = json.RawMessage(`{"by":"eve 1"}`) },
		"no detail":             func(e *pipeline.Entry) { e.Detail = nil },
		"white space in a text": func(e *pipeline.Entry) { e.Detail = json.RawMessage(`{"by":"ana  1"}`) },
		"where a text ends":     func(e *pipeline.Entry) { e.Target, e.Event = e.Target+e.Event[:1], e.Event[1:] },
	} {
		e := entries[0]
		if edit(&e); e.Link(pipeline.Digest{}) == entries[0].Digest {
			t.Errorf("%s: the digest is the same", name)
		}
	}
	e := entries[0]
	e.Detail, e.At = json.RawMessage("{\n  \"by\": \"ana 1\"\n}"), e.At.In(time.FixedZone("", 3600))
	if e.Link(pipeline.Digest{}) != entries[0].Digest {
		t.Error("the digest changes with white space between values, or with the zone of a time")
	}
}

func TestEditsOfALogAreNamed(t *testing.T) {
	t.Parallel()
	const end = "the digest at the end, of entry 9, is not the one that the pipeline keeps: entries were changed or removed there"
	changed := func(seq int) string {
		return fmt.Sprintf("entry %d was changed: it does not have the digest that it was written with", seq)
	}
	odd := func(e pipeline.Entry) bool { return e.Seq%2 == 1 }
	none := pipeline.Digest{}
	for _, c := range []struct {
		name    string
		without int64                                         // entries that have no digest
		parts   func(all []pipeline.Entry) [][]pipeline.Entry // nil: one
		edit    func(all []pipeline.Entry) []pipeline.Entry
		gaps    int64
		want    []string
	}{
		{name: "none"},
		{name: "in two parts, the later one first",
			parts: func(all []pipeline.Entry) [][]pipeline.Entry { return [][]pipeline.Entry{all[4:], all[:4]} }},
		{name: "in parts that alternate", parts: alternating},
		{name: "an earlier version wrote the first", without: 3, parts: alternating},
		{name: "an earlier version wrote all", without: 10},
		{name: "one changed", edit: func(all []pipeline.Entry) []pipeline.Entry { all[4].Detail = nil; return all }, want: []string{changed(5)}},
		{name: "one changed, in parts", parts: alternating,
			edit: func(all []pipeline.Entry) []pipeline.Entry { all[4].Detail = nil; return all }, want: []string{changed(5)}},
		{name: "the first changed", edit: func(all []pipeline.Entry) []pipeline.Entry { all[0].Version++; return all },
			want: []string{changed(1)}},
		{name: "the last changed", edit: func(all []pipeline.Entry) []pipeline.Entry { all[9].Version++; return all },
			want: []string{changed(10)}},
		{name: "one without its digest",
			edit: func(all []pipeline.Entry) []pipeline.Entry { all[4].Digest = none; return all }, want: []string{changed(6)}},
		{name: "one removed", edit: func(all []pipeline.Entry) []pipeline.Entry { return slices.Delete(all, 4, 5) },
			want: []string{"entry 5 is missing"}},
		{name: "some removed", edit: func(all []pipeline.Entry) []pipeline.Entry { return slices.Delete(all, 4, 6) },
			want: []string{"entries 5 to 6 are missing"}},
		{name: "the last removed", edit: func(all []pipeline.Entry) []pipeline.Entry { return all[:9] }, want: []string{"entry 10 is missing"}},
		{name: "one added at the end", edit: func(all []pipeline.Entry) []pipeline.Entry { return append(all, pipeline.Entry{Seq: 11}) },
			want: []string{"entry 11 was added: the pipeline ends at entry 10"}},
		{name: "one added", edit: func(all []pipeline.Entry) []pipeline.Entry { return slices.Insert(all, 4, all[4]) },
			want: []string{"entry 5 is there twice"}},
		{name: "two that changed places", edit: func(all []pipeline.Entry) []pipeline.Entry {
			all[3], all[4] = all[4], all[3]
			all[3].Seq, all[4].Seq = 4, 5
			return all
		}, want: []string{changed(4), changed(5), changed(6)}},
		{name: "archives that are not known", gaps: 9, edit: func(all []pipeline.Entry) []pipeline.Entry { return slices.DeleteFunc(all, odd) }},
		{name: "a gap above the archived ones", gaps: 6, edit: func(all []pipeline.Entry) []pipeline.Entry { return slices.DeleteFunc(all, odd) },
			want: []string{"entry 7 is missing", "entry 9 is missing"}},
		{name: "a gap that begins among the archived ones", gaps: 6,
			edit: func(all []pipeline.Entry) []pipeline.Entry { return slices.Delete(all, 4, 8) },
			want: []string{"entries 7 to 8 are missing"}},
		{name: "an end that is missing with archived ones", gaps: 6, edit: func(all []pipeline.Entry) []pipeline.Entry { return all[:4] },
			want: []string{"entries 7 to 10 are missing"}},
		{name: "more than are named", edit: func(all []pipeline.Entry) []pipeline.Entry {
			for i := range all {
				all[i].Pipeline = "other"
			}
			return append(all, slices.Repeat(all, 3)...)
		}, want: nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			all, last := linked(10, c.without)
			if c.edit != nil {
				all = c.edit(all)
			}
			parts := [][]pipeline.Entry{all}
			if c.parts != nil {
				parts = c.parts(all)
			}
			var check pipeline.DigestCheck
			for _, part := range parts {
				for _, e := range part {
					check.Add(e)
				}
			}
			got := check.Check(10, last, c.gaps)
			if c.name == "more than are named" {
				if n := len(got); n != 21 || !strings.HasPrefix(got[20], "and ") {
					t.Errorf("%d faults: %q", n, got)
				}
				return
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("faults (-want +got):\n%s", diff)
			}
		})
	}
	all, last := linked(10, 0)
	var check pipeline.DigestCheck
	for _, e := range all[:9] {
		check.Add(e)
	}
	if got := check.Check(9, last, 0); !slices.Equal(got, []string{end}) {
		t.Errorf("an end that the head does not know: %q", got)
	}
}

// alternating returns the entries of each deployment as a part of their own.
func alternating(all []pipeline.Entry) (parts [][]pipeline.Entry) {
	for n := range int64(3) {
		parts = append(parts, slices.DeleteFunc(slices.Clone(all), func(e pipeline.Entry) bool { return e.Deployment != n }))
	}
	return parts
}
