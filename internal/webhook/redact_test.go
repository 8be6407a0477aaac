package webhook

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/waybill-dev/waybill/internal/secret"
)

// writers are the ways in which a template can write a text; %s is what they write.
var writers = []string{
	"json (%s)", "urlquery (%s)", "html (%s)", "js (%s)", "shq (%s)", "lower (%s)", "upper (%s)", "b64 (%s)", "print (%s)", `default "-" (%s)`,
	`printf "%%x" (%s)`, `printf "%%X" (%s)`, `printf "%% x" (%s)`, `printf "%%q" (%s)`, `printf "%%+q" (%s)`,
	`printf "%%s" (%s)`, `printf "%%v" (%s)`,
}

// TestWhatTemplatesWriteOfSecretsIsRedacted writes a secret among other text by one or two
// functions. Whatever is left of it must not depend on the secret.
func TestWhatTemplatesWriteOfSecretsIsRedacted(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		value := rapid.StringMatching("[a-zA-Z0-9 &<>\"'\\\\/+=?%#éß\t`-]{4,40}").Draw(t, "secret")
		inner := rapid.SampledFrom(writers).Draw(t, "inner")
		outer := rapid.SampledFrom(append(writers, "%s")).Draw(t, "outer")
		first := fmt.Sprintf(inner, `.secrets.token`)
		second := fmt.Sprintf(outer, first)
		if rapid.Bool().Draw(t, "among other text") {
			prefix := rapid.StringMatching("[a-z]{0,4}").Draw(t, "prefix")
			second = fmt.Sprintf(outer, fmt.Sprintf(`printf "%s:%%s:z" (%s)`, prefix, first))
		}
		tmpl, err := ParseTemplate("body", "{{ "+second+" }}", names())
		if err != nil {
			t.Fatal(err)
		}
		secrets := secret.Values{"token": value}
		text, err := tmpl.Render(Data{Secrets: secrets}.Fields())
		if err != nil {
			t.Fatal(err)
		}
		got := secrets.Redactor().Text(text)
		if !strings.Contains(got, secret.Mark("token")) {
			t.Fatalf("{{ %s }} writes %q of %q: not redacted", second, text, value)
		}
		if left := strings.ReplaceAll(got, secret.Mark("token"), ""); len(left) > 30 {
			t.Fatalf("{{ %s }} writes %q of %q: %q is left", second, text, value, got)
		}
	})
}

func TestSecretsOfBasicAuthenticationAreRedacted(t *testing.T) {
	t.Parallel()
	for user := range 3 {
		value := `p&ss"w<rd\1`
		tmpl, err := ParseTemplate("body", fmt.Sprintf(`{{ b64 (printf "%s:%%s" .secrets.token) }}`, strings.Repeat("u", user+3)), names())
		if err != nil {
			t.Fatal(err)
		}
		secrets := secret.Values{"token": value}
		text, err := tmpl.Render(Data{Secrets: secrets}.Fields())
		if err != nil {
			t.Fatal(err)
		}
		if got := secrets.Redactor().Text(text); len(got) > 12+len(secret.Mark("token")) {
			t.Errorf("%q is left of %q", got, text)
		}
	}
}
