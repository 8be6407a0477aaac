package config

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestGroupsOfPeople(t *testing.T) {
	t.Parallel()
	c, err := Read("server.yaml", []byte("groups:\n  ops: [ana, bo]\n  qa: []\n"))
	if diff := cmp.Diff(map[string][]string{"ops": {"ana", "bo"}, "qa": nil}, c.Groups); diff != "" || err != nil {
		t.Errorf("%v (-want +got)\n%s", err, diff)
	}
	for text, want := range map[string]string{
		"groups: [ops]":                                     "server.yaml:1:9: groups: want a mapping, found a list",
		"groups: {ops: ana}":                                "server.yaml:1:15: groups.ops: want a list of people, found a string",
		"groups: {o ps: [ana]}":                             `server.yaml:1:10: group "o ps": want a name of letters, digits, -, _ and . with at most 63 characters`,
		"groups: {ops: [ana, ana]}":                         `server.yaml:1:21: groups.ops[1]: "ana" is named twice`,
		"groups: {ops: [\"an\u3164a\"]}":                    `server.yaml:1:16: groups.ops[0]: want the name of a person, of at most 100 bytes and visible characters only, not "an\u3164a"`,
		"groups: {ops: [" + strings.Repeat("a", 101) + "]}": "server.yaml:1:16: groups.ops[0]: want the name of a person",
		"groups: {ops: [a1" + many(", b%d", 1000) + "]}":    "server.yaml:1:15: groups.ops: group ops has 1001 people, at most 1000",
		"groups: {a: []" + many(", b%d: []", 100) + "}":     "server.yaml:1:9: groups: 101 groups, at most 100",
	} {
		if _, err := Read("server.yaml", []byte(text)); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%.60s: %v, want %s", text, err, want)
		}
	}
}

// many writes the numbers from 1 to n in a format.
func many(format string, n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, format, i+1)
	}
	return b.String()
}
