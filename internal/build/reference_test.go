package build

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/waybill-dev/waybill/internal/document"
	"github.com/waybill-dev/waybill/internal/goldentest"
)

// TestTheReferenceIsTheTables compares the tables of fields in the page with those that drive the parser.
func TestTheReferenceIsTheTables(t *testing.T) {
	t.Parallel()
	const page, begins, ends = "../../docs/builds.md", "<!-- fields, written by go test ./internal/build " +
		"-rewrite -->\n", "<!-- end of fields -->\n"
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, found := strings.Cut(string(text), begins)
	was, after, closed := strings.Cut(rest, ends)
	if !found || !closed {
		t.Fatalf("%s lacks %q and %q", page, begins, ends)
	}
	var out strings.Builder
	for _, key := range stepTypes() {
		fmt.Fprintf(&out, "\n`%s`: %s\n\n| field | kind | |\n|---|---|---|\n", key.Name, key.Help)
		writeFields(&out, "", key.Keys)
	}
	out.WriteString("\nBeside the type a step has these keys:\n\n| key | kind | |\n|---|---|---|\n")
	writeFields(&out, "", stepTable())
	out.WriteString("\n")
	if goldentest.Rewrite() {
		if err := os.WriteFile(page, []byte(before+begins+out.String()+ends+after), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(was, out.String()); diff != "" {
		t.Errorf("%s (-page +tables); -rewrite writes it:\n%s", page, diff)
	}
}

// writeFields writes a line for each field, and for each field of one that is a mapping.
func writeFields(out *strings.Builder, prefix string, keys []document.Key) {
	for _, key := range keys {
		help := key.Help
		if key.Values != nil {
			help += " One of " + strings.Join(key.Values, ", ") + "."
		}
		if key.Required {
			help += " **Required.**"
		}
		if key.Default != "" {
			help += " Default: " + key.Default + "."
		}
		fmt.Fprintf(out, "| `%s%s` | %s | %s |\n", prefix, key.Name, key.Shape, strings.TrimSpace(help))
		writeFields(out, prefix+key.Name+".", key.Keys)
	}
}
