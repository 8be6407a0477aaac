package secret_test

import (
	"encoding/base64"
	"encoding/json"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/secret"
)

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestValuesAreReadAgainAfterTheirTime(t *testing.T) {
	t.Setenv("WAYBILL_TEST_SECRET", "from the environment")
	path := filepath.Join(t.TempDir(), "token")
	write(t, path, "first\n")
	store := secret.NewStore(
		secret.Source{Name: "token", Path: path, TTL: time.Minute},
		secret.Source{Name: "other", Env: "WAYBILL_TEST_SECRET"})
	now := time.Unix(0, 0)
	want := func(at time.Time, token string) {
		t.Helper()
		got, err := store.Values(at)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(secret.Values{"token": token, "other": "from the environment"}, got); diff != "" {
			t.Error(diff)
		}
	}
	want(now, "first")
	write(t, path, "second")
	want(now.Add(59*time.Second), "first")
	want(now.Add(time.Minute), "second")
	write(t, path, "third")
	store.Forget()
	want(now.Add(61*time.Second), "third")
}

func TestAnUnreadableSecretNamesItself(t *testing.T) {
	t.Parallel()
	big := filepath.Join(t.TempDir(), "big")
	write(t, big, strings.Repeat("x", 1<<17))
	for _, source := range []secret.Source{
		{Name: "token", Path: filepath.Join(t.TempDir(), "absent")},
		{Name: "token", Env: "WAYBILL_NO_SUCH_VARIABLE"},
		{Name: "token", Path: big},
	} {
		_, err := secret.NewStore(source).Values(time.Now())
		if !fault.Is(err, fault.Unavailable) || !strings.Contains(err.Error(), "read secret token: ") {
			t.Errorf("%+v: %v", source, err)
		}
	}
}

func TestSingleLinesOfASecretAreRedacted(t *testing.T) {
	t.Parallel()
	redactor := secret.Values{"key": "-----BEGIN-----\r\nMIIEvQIBADAN\nend\n"}.Redactor()
	if got, want := redactor.Text("1: MIIEvQIBADAN 2: end"), "1: "+secret.Mark("key")+" 2: end"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestRedactedTextHoldsNoSecret(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		// No letters of a mark, else a mark would hold the secret by chance.
		words := rapid.StringMatching(`[ABab01/+ "'\\&=é]{4,9}`)
		values := secret.Values{"one": words.Draw(t, "one"), "two": words.Draw(t, "two")}
		var text strings.Builder
		for range rapid.IntRange(1, 9).Draw(t, "parts") {
			part := rapid.SampledFrom([]string{values["one"], values["two"]}).Draw(t, "part")
			quoted, err := json.Marshal(part)
			if err != nil {
				t.Fatal(err)
			}
			text.WriteString(rapid.SampledFrom([]string{part, url.QueryEscape(part), url.PathEscape(part), string(quoted),
				base64.StdEncoding.EncodeToString([]byte(part)), part[:2], "-"}).Draw(t, "form"))
		}
		got := values.Redactor().Text(text.String())
		for name, value := range values {
			if strings.Contains(got, value) {
				t.Fatalf("secret %s (%q) is in %q, made of %q", name, value, got, text.String())
			}
		}
	})
}

func TestShortSecretsAreNotLookedFor(t *testing.T) {
	t.Parallel()
	if got := (secret.Values{"a": "abc"}).Redactor().Text("abc"); got != "abc" {
		t.Errorf("got %q", got)
	}
}

func TestSecretsAreRedactedAsProgramsPrintThem(t *testing.T) {
	t.Parallel()
	const token = "ghp_0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-and-more"
	coded := base64.StdEncoding.EncodeToString([]byte(token))
	for _, text := range []string{token, coded[:76] + "\n" + coded[76:], token[:20] + "\x1b[0m" + token[20:], token[:20] + "\r" + token[20:]} {
		if got := (secret.Values{"token": token, "other": "hunter22"}).Redactor().
			Text("a " + text); got != "a "+secret.Mark("token") && got != "a "+secret.Mark("token")+"\x1b[0m" {
			t.Errorf("%q becomes %q", text, got)
		}
	}
}
