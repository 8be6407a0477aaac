package document_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/waybill-dev/waybill/internal/document"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/yamltree"
)

// hosts returns a table with nested ones.
func hosts() []document.Key {
	return []document.Key{
		{Name: "name", Shape: document.Text, Required: true},
		{Name: "hosts", Shape: document.Entries, Keys: []document.Key{
			{Name: "url", Shape: document.Text, Required: true},
			{Name: "vars", Shape: document.ScalarMap},
		}},
		{Name: "port", Shape: document.Number | document.Text},
		{Name: "waves", Shape: document.Object, Later: true},
	}
}

func TestCheckReportsAllTheWayDown(t *testing.T) {
	t.Parallel()
	const file = `
common: &common {port: [1], wavs: 1}
group:
  <<: *common
  waves: {}
  hosts: [a, {url: b, vars: {x: 1, y: [2]}}, 3, {vars: {}}]
`
	root, problems := yamltree.Parse("f", []byte(file), yamltree.BuildFile)
	if problems != nil {
		t.Fatal(problems)
	}
	group := root.Fields[1]
	r := &document.Reader{Missing: func(p fault.Problem, path, key string) fault.Problem {
		p.Scope, p.Text = "", path+" needs a "+key
		return p
	}}
	r.Check(group.Value, document.Place{Path: "group", At: group.At}, hosts())
	r.Problems.Sort()
	want := `f:2:24: group.port: want a string or a number, found a list (used at 4:7)
f:2:29: group: unknown key "wavs" (used at 4:7) (did you mean "waves"?)
f:3:1: group needs a name
f:5:3: group.waves: "waves" is not yet supported
f:6:39: group.hosts[1].vars.y: want a scalar, found a list
f:6:46: group.hosts[2]: want a string or a mapping, found a number; write "3" in quotes
f:6:49: group.hosts[3] needs a url`
	if diff := cmp.Diff(want, r.Problems.Error()); diff != "" {
		t.Error(diff)
	}
}

func TestCheckGoesIntoSoundLists(t *testing.T) {
	t.Parallel()
	root, problems := yamltree.Parse("f", []byte("name: n\nhosts: [{url: b, vars: {y: [2]}}, {vars: {}}]"), yamltree.BuildFile)
	if problems != nil {
		t.Fatal(problems)
	}
	r := &document.Reader{Separator: "/"}
	r.Check(root, document.Place{At: root.At}, hosts())
	r.Problems.Sort()
	want := `f:2:28: hosts[0]/vars/y: want a scalar, found a list
f:2:35: hosts[1]: the field "url" is missing`
	if diff := cmp.Diff(want, r.Problems.Error()); diff != "" {
		t.Error(diff)
	}
}
