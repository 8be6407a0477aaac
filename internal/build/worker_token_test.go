package build_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/waybill-dev/waybill/internal/build"
)

const (
	oldKey = "k1 MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY"
	newKey = "k2 ZmVkY2JhOTg3NjU0MzIxMGZlZGNiYTk4NzY1NDMyMTA"
)

func keysOf(t *testing.T, lines ...string) build.BuilderKeys {
	t.Helper()
	keys, err := build.ParseBuilderKeys(strings.Join(lines, "\n"))
	if err != nil {
		t.Fatal(err)
	}
	return keys
}

func TestATokenIsComputedAgainFromWhatIsKnown(t *testing.T) {
	t.Parallel()
	got := keysOf(t, oldKey)[0].WorkerToken("shop", 41, "nonce")
	if want := "k1.S1h_rnB-NThCl7SzV839ExUUO1E8ZsW126O60dPsGNE"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	seen := map[string]bool{}
	for _, token := range []string{
		got,
		keysOf(t, oldKey)[0].WorkerToken("shop", 42, "nonce"),
		keysOf(t, oldKey)[0].WorkerToken("shop", 41, "other"),
		keysOf(t, oldKey)[0].WorkerToken("shop2", 41, "nonce"),
		keysOf(t, oldKey)[0].WorkerToken("shop\"\n41", 41, "nonce"),
		keysOf(t, newKey)[0].WorkerToken("shop", 41, "nonce"),
	} {
		if seen[token] {
			t.Errorf("two workers share %s", token)
		}
		seen[token] = true
	}
}

func TestBothKeysAreValidDuringARotation(t *testing.T) {
	t.Parallel()
	keys := keysOf(t, newKey, oldKey)
	if diff := cmp.Diff(keys, keysOf(t, keys.Format())); diff != "" || keys[0].Number != 2 {
		t.Errorf("the first key, which makes tokens, is k%d: %s", keys[0].Number, diff)
	}
	for number, before := range map[int]string{1: oldKey, 2: newKey} {
		key, ok := keys.Numbered(number)
		want := keysOf(t, before)[0].WorkerToken("shop", 41, "nonce")
		if got := key.WorkerToken("shop", 41, "nonce"); !ok || got != want {
			t.Errorf("key %d: %s, want %s", number, got, want)
		}
	}
	if _, ok := keys.Numbered(3); ok {
		t.Error("there is a third key")
	}
}

func TestBadKeysAreRefusedWithoutShowingThem(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                          "want a key",
		"k1 c2hvcnQ":                "line 1: want at least 16 bytes in base64url after the key's name",
		"\n" + oldKey + "\n\nk2 !!": "line 4: want at least 16 bytes in base64url after the key's name",
		"k1 !!":                     "line 1: want at least 16 bytes in base64url after the key's name",
		oldKey[1:]:                  "line 1: want the key's name, such as k1, in front",
		"k01" + oldKey[2:]:          "line 1: want the key's name, such as k1, in front",
		"k0" + oldKey[2:]:           "line 1: want the key's name, such as k1, in front",
		oldKey + "\n" + oldKey:      "two keys are called k1",
		oldKey + "\n" + newKey + "\nk3" + oldKey[2:]: "want at most 2 keys",
	} {
		if _, err := build.ParseBuilderKeys(text); err == nil || err.Error() != want {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
}
