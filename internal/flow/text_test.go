package flow_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/waybill-dev/waybill/internal/flow"
)

func TestTextsAreCut(t *testing.T) {
	t.Parallel()
	const most = 1 << 10
	got := flow.Cut(strings.Repeat("ä", most))
	if len(got) > most || len(got) < most-4 || !strings.HasSuffix(got, "ä…") || !utf8.ValidString(got) {
		t.Errorf("got %d bytes that end in %q", len(got), got[len(got)-8:])
	}
	for text, want := range map[string]string{"short?key=kept": "short?key=kept", "a\xff": "a\uFFFD"} {
		if got := flow.Cut(text); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
