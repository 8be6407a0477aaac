package build_test

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/mask"
)

// TestWhatIsShownHasNoSecrets: the mask compares visible text, so both must agree about hidden text.
func TestWhatIsShownHasNoSecrets(t *testing.T) {
	t.Parallel()
	const secret = "hunter"
	pieces := append(strings.Split(secret, ""), secret, "hun", "ter", "x", "m", "[", "]", "0", ";", " ", "\\", "\x1b",
		"\x1b[", "\x1b[1m", "\x1b]", "\a", "\x00", "\r", "\b", "\x7f",
		"\xc2", "\xe2", "\x80", "\x81", "\x9b", "\x9c", "\x9d", "\u0085", "\u009b", "\u009d", "\u009c", "\u200e", "\u2029",
		"\u2066", "\u061c", "\xd8", "é", "\n")
	set := mask.NewSet(secret)
	rapid.Check(t, func(t *rapid.T) {
		text := strings.Join(rapid.SliceOfN(rapid.SampledFrom(pieces), 0, 60).Draw(t, "text"), "")
		masked := set.Text(text)
		for _, line := range strings.Split(masked, "\n") {
			if shown := build.VisibleText([]byte(line)); strings.Contains(shown, secret) {
				t.Fatalf("%q becomes %q, which is shown as %q", text, masked, shown)
			}
		}
	})
}
