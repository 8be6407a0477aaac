package marker

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var podinfo = Environment{Namespace: "apps", Pipeline: "podinfo", Name: "prod"}

// m is a marker of podinfo, and n one of another environment.
const (
	m = `# {"$promotion": "apps:podinfo:prod"}`
	n = `# {"$promotion": "apps:podinfo:staging"}`
)

func TestEditReplacesTheMarkedScalarOnly(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ file, revision, want string }{
		"plain":              {"version: 6.5.4 " + m + "\n", "6.6.0", "version: 6.6.0 " + m + "\n"},
		"double quotes":      {`version: "6.5.4" ` + m + "\n", "6.6.0", `version: "6.6.0" ` + m + "\n"},
		"single quotes":      {`version: '6.5.4' ` + m + "\n", "it's", `version: 'it''s' ` + m + "\n"},
		"quoted hash":        {`version: "a # b" ` + m + "\n", `c "d" \e`, `version: "c \"d\" \\e" ` + m + "\n"},
		"escaped quotes":     {`version: "a \" # b" ` + m + "\n", "c", `version: "c" ` + m + "\n"},
		"becomes a number":   {"v: 6.5.4 " + m + "\n", "1.10", `v: "1.10" ` + m + "\n"},
		"becomes truth":      {"v: a " + m + "\n", "true", `v: "true" ` + m + "\n"},
		"becomes yes":        {"v: a " + m + "\n", "yes", `v: "yes" ` + m + "\n"},
		"becomes octal":      {"v: a " + m + "\n", "0123", `v: "0123" ` + m + "\n"},
		"all-digit hash":     {"v: 1a2b3c4 " + m + "\n", "1234567", `v: "1234567" ` + m + "\n"},
		"hash with exponent": {"v: 1a2b3c4 " + m + "\n", "12e34567", `v: "12e34567" ` + m + "\n"},
		"a date":             {"v: a " + m + "\n", "2024-01-02", `v: "2024-01-02" ` + m + "\n"},
		"hours":              {"v: a " + m + "\n", "12:30:45", `v: "12:30:45" ` + m + "\n"},
		"stays a number":     {"v: 3 " + m + "\n", "4", "v: 4 " + m + "\n"},
		"number to text":     {"v: 1.9 " + m + "\n", "1.10", `v: "1.10" ` + m + "\n"},
		"plain with a hash":  {"v: a#b " + m + "\n", "c#d", "v: c#d " + m + "\n"},
		"needs quotes":       {"v: a " + m + "\n", "b: c", `v: "b: c" ` + m + "\n"},
		"an indicator":       {"v: a " + m + "\n", "@b", `v: "@b" ` + m + "\n"},
		"CR LF":              {"a: 1\r\nv: a " + m + "\r\nb: 2\r\n", "c", "a: 1\r\nv: c " + m + "\r\nb: 2\r\n"},
		"BOM":                {"\ufeffv: a " + m + "\n", "c", "\ufeffv: c " + m + "\n"},
		"BOM and CR LF":      {"\ufeffé: a " + m + "\r\nv: b " + m + "\r\n", "c", "\ufeffé: c " + m + "\r\nv: c " + m + "\r\n"},
		"wide characters":    {"ключ: [1]\n\"日本 😀\": é " + m + "\n", "c", "ключ: [1]\n\"日本 😀\": c " + m + "\n"},
		"no end of line":     {"v: a " + m, "c", "v: c " + m},
		"documents": {"v: a " + m + "\n---\n# x\nv: a " + m + "\n...\n---\nv: a " + n + "\n", "c",
			"v: c " + m + "\n---\n# x\nv: c " + m + "\n...\n---\nv: a " + n + "\n"},
		"list": {"- a " + m + "\n-   - b " + m + "\n- c: d " + m + "\n", "e",
			"- e " + m + "\n-   - e " + m + "\n- c: e " + m + "\n"},
		"anchor and tag":     {"v: &x !!str 1.0 " + m + "\nw: *x\n", "1.1", "v: &x !!str 1.1 " + m + "\nw: *x\n"},
		"own tag":            {"v: !own a " + m + "\n", "1.1", "v: !own 1.1 " + m + "\n"},
		"flow over lines":    {"v: {\n  a: b, " + m + "\n  c: d\n}\n", "e,f", "v: {\n  a: \"e,f\", " + m + "\n  c: d\n}\n"},
		"flow, last":         {"v: {\n  a: b " + m + "\n}\n", "e", "v: {\n  a: e " + m + "\n}\n"},
		"plain with a comma": {"v: a, " + m + "\n", "b,", "v: b, " + m + "\n"},
		"explicit key":       {"? a\n: b " + m + "\n", "c", "? a\n: c " + m + "\n"},
		"alias as a key":     {"a: &x k\n*x : b " + m + "\n", "c", "a: &x k\n*x : c " + m + "\n"},
		"on the separator":   {"--- a " + m + "\n--- b\n", "c", "--- c " + m + "\n--- b\n"},
		"odd blanks": {"v:\ta\t#{\"$promotion\":\"apps:podinfo:prod\"}  \n", "c",
			"v:\tc\t#{\"$promotion\":\"apps:podinfo:prod\"}  \n"},
		"another field": {`v: a # {"$x": "y", "$promotion": "apps:podinfo:prod"}` + "\n", "c",
			`v: c # {"$x": "y", "$promotion": "apps:podinfo:prod"}` + "\n"},
		"commented out": {"# v: a " + m + "\nv: a " + m + "\n", "c", "# v: a " + m + "\nv: c " + m + "\n"},
		"longer name": {`v: a # {"$promotion": "apps:podinfo:prod-eu"}` + "\n", "c",
			`v: a # {"$promotion": "apps:podinfo:prod-eu"}` + "\n"},
		"same value": {"v: 'c' " + m + "\nw: 1.10 " + m + "\n", "1.10", "v: '1.10' " + m + "\nw: 1.10 " + m + "\n"},
		"other comments": {"# a\nv: b " + m + "\n# c\n\n\n  # d\nw:   e   # f\n", "g",
			"# a\nv: g " + m + "\n# c\n\n\n  # d\nw:   e   # f\n"},
		"template elsewhere": {"v: a " + n + "\n{{ if }}\n", "c", "v: a " + n + "\n{{ if }}\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, lines, err := Edit("f.yaml", []byte(c.file), podinfo, c.revision)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, string(got)); diff != "" {
				t.Error(diff)
			}
			judge(t, c.file, string(got), c.revision, lines)
			again, _, err := Edit("f.yaml", got, podinfo, c.revision)
			if err != nil || string(again) != string(got) {
				t.Errorf("the second edit changes it to %q, %v", again, err)
			}
		})
	}
}

func TestPartsOfARevision(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		revision      string
		part          Part
		want, problem string
	}{
		{"6.6.0", Tag, "6.6.0", ""},
		{"6.6.0", Name, "", "has none"},
		{"6.6.0", Digest, "", "has none"},
		{"main@sha1:0a1b", Tag, "main", ""},
		{"main@sha1:0a1b", Digest, "sha1:0a1b", ""},
		{"sha256:0a1b", Digest, "sha256:0a1b", ""},
		{"ghcr.io:443/a/b:1.2@sha256:0a", Name, "ghcr.io:443/a/b", ""},
		{"ghcr.io:443/a/b:1.2@sha256:0a", Tag, "1.2", ""},
		{"ghcr.io:443/a/b:1.2@sha256:0a", Digest, "sha256:0a", ""},
		{"ghcr.io:443/a/b:1.2@sha256:0a", Whole, "ghcr.io:443/a/b:1.2@sha256:0a", ""},
		{"feature/x", Tag, "feature/x", ""},
	} {
		suffix := ""
		if c.part != Whole {
			suffix = ":" + string(c.part)
		}
		file := `v: old # {"$promotion": "apps:podinfo:prod` + suffix + `"}`
		got, lines, err := Edit("f.yaml", []byte(file), podinfo, c.revision)
		if c.problem != "" {
			if err == nil || !strings.Contains(err.Error(), c.problem) {
				t.Errorf("%s of %s: %v", c.part, c.revision, err)
			}
			continue
		}
		if err != nil || len(lines) != 1 || lines[0].New != c.want || lines[0].Part != c.part {
			t.Errorf("%s of %s: %q %+v %v", c.part, c.revision, got, lines, err)
		}
	}
}

func TestUnusableMarkersAreRefusedWithTheirPlace(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ file, want string }{
		"literal":            {"a: b\nv: | " + m + "\n  x\n", "f.yaml:2: the marked value is a block scalar"},
		"folded":             {"v: >- " + m + "\n  x\n", "block scalar"},
		"inside a block":     {"v: |\n  w: x " + m + "\n", "f.yaml:2: no value begins"},
		"multi-line plain":   {"v: a\n  b " + m + "\n", "no value begins"},
		"multi-line quoted":  {"v: \"a\n  b\" " + m + "\n", "no value begins"},
		"empty":              {"v: " + m + "\n", "no value begins"},
		"alias":              {"a: &x b\nv: *x " + m + "\n", "alias"},
		"several":            {"v: {a: b, c: d, " + m + "\n}\n", "several values"},
		"after a list":       {"v: [a] " + m + "\n", "not directly after"},
		"after a mapping":    {"v: {a: b} " + m + "\n", "not directly after"},
		"end of another":     {"v: [\"x\n y\", b, " + m + "\n]\n", "another value ends"},
		"on its own":         {"a: b\n" + m + "\nv: c\n", "on a line of its own"},
		"in a string":        {"v: 'a " + m + "'\n", "is not a comment of the form"},
		"broken JSON":        {`v: a # {"$promotion": "apps:podinfo:prod"` + "\n", "is not a comment of the form"},
		"text after it":      {"v: a " + m + " please\n", "is not a comment of the form"},
		"unknown part":       {`v: a # {"$promotion": "apps:podinfo:prod:sha"}` + "\n", `":sha"`},
		"empty part":         {`v: a # {"$promotion": "apps:podinfo:prod:"}` + "\n", `":"`},
		"number's tag":       {"v: !!int 3 " + m + "\n", "the tag !!int"},
		"template":           {"{{ if x }}\nv: a " + m + "\n", "cannot be read as YAML"},
		"pointer of LFS":     {"version https://git-lfs.github.com/spec/v1 " + m + "\n", "Git LFS"},
		"carriage return":    {"a: b\rv: a " + m + "\n", "line ends"},
		"separator of lines": {"a: \"\u2028\"\nv: a " + m + "\n", "line ends"},
		"too large":          {"v: a " + m + "\n#" + strings.Repeat(" ", MaxFile) + "\n", "more than 4 MiB"},
		"too dense":          {"v: a " + m + "\nw: [" + strings.Repeat("[],", maxNodes) + "]\n", "keys and values"},
		"long line":          {"v: " + strings.Repeat("a", maxLine) + " " + m + "\n", "bytes"},
		"one of two":         {"v: a " + m + "\nw: |- " + m + "\n  b\n", "f.yaml:2: "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, lines, err := Edit("f.yaml", []byte(c.file), podinfo, "6.6.0")
			if _, ok := errors.AsType[*Unusable](err); !ok || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
			if got != nil || lines != nil {
				t.Errorf("it is edited all the same: %.100q", got)
			}
			if _, err := Values("f.yaml", []byte(c.file), podinfo); err == nil {
				t.Error("its values are read all the same")
			}
		})
	}
}

func TestRevisionsThatNoFileCanHold(t *testing.T) {
	t.Parallel()
	for _, revision := range []string{"", "a\nb", "\x00", "a\u2028", "\ufeff", "\xff", strings.Repeat("a", 257), " a"} {
		if _, _, err := Edit("f.yaml", []byte("v: a "+m), podinfo, revision); err == nil {
			t.Errorf("%.20q is taken", revision)
		}
	}
}

func TestValuesAreThoseOfTheEnvironment(t *testing.T) {
	t.Parallel()
	file := "v: '6.5.4' " + m + "\nw: 1 " + n + "\nx: \"\\x36.5.4\" " + m + "\n"
	lines, err := Values("f.yaml", []byte(file), podinfo)
	if err != nil || len(lines) != 2 || lines[0].Old != "6.5.4" || lines[1].Old != "6.5.4" || lines[1].Number != 3 || lines[0].Changed() {
		t.Errorf("%+v %v", lines, err)
	}
}

func TestAgreedReturnsTheOneRevision(t *testing.T) {
	t.Parallel()
	for file, want := range map[string]string{
		"v: 1.0 " + m + "\nw: '1.0' " + m: "1.0",
		"v: 1.0 " + m + "\nw: '1.1' " + m: "!the values at f.yaml:1 and f.yaml:2 differ",
		"v: 1.0 " + n:                     "!no value",
		"v: a " + strings.Replace(m, `prod"`, `prod:name"`, 1) + "\nw: b " + strings.Replace(m, `prod"`, `prod:tag"`, 1): "b",
	} {
		lines, err := Values("f.yaml", []byte(file), podinfo)
		if err != nil {
			t.Fatal(err)
		}
		got, err := Agreed(lines)
		if problem, bad := strings.CutPrefix(want, "!"); bad && (err == nil || !strings.Contains(err.Error(), problem)) ||
			!bad && got != want {
			t.Errorf("%q: %q %v", file, got, err)
		}
	}
}
