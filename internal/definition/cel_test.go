package definition

import "testing"

// TestValuesInCELEndNoText: a revision's label cannot become code.
func TestValuesInCELEndNoText(t *testing.T) {
	t.Parallel()
	got, err := ExpandCEL(`x == '${revision}' && y < ${n} && z == "$${n}"`, map[string]string{"revision": `1.2-a' || true\`, "n": "7"})
	want := `x == '1.2-a\U00000027\U00000020\U0000007c\U0000007c\U00000020true\U0000005c' && y < 7 && z == "${n}"`
	if err != nil || got != want {
		t.Errorf("got %s, %v; want %s", got, err, want)
	}
	if _, err := ExpandCEL("${other}", nil); err == nil {
		t.Error("a variable that is not set was replaced")
	}
}
