package pipeline

import (
	"testing"
	"unicode"
)

func TestUnseenFindsWhatIsNotDrawn(t *testing.T) {
	t.Parallel()
	for _, r := range "\u00a0\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180e\u180f\u200b\u200d\u200e\u2028\u202e\u2060\u2064\u2066\u2800\u3000\u3164" +
		"\ufe00\ufe0f\ufeff\uffa0\ufff9\U00013441\U00016fe4\U0001d159\U0001d173\U000e0001\U000e0020\U000e0100\U000e01ef" {
		if got, found := Unseen("v" + string(r) + "1"); !found || got != r {
			t.Errorf("Unseen(v%+q1) = %+q, %v", r, got, found)
		}
	}
	for _, name := range []string{" v1", "v1 ", " "} {
		if r, found := Unseen(name); !found || r != ' ' {
			t.Errorf("Unseen(%q) = %+q, %v, want the space", name, r, found)
		}
	}
	for _, name := range []string{"", "v1", "3f2c9a1+5d81e0", "release 1", "né", "ne\u0301", "выпуск", "第1版", "إصدار", "배포", "v1 🚀", "⠁"} {
		if r, found := Unseen(name); found {
			t.Errorf("Unseen(%q) finds %+q", name, r)
		}
	}
}

// TestUnseenFindsEveryIgnorable: Unicode derives Default_Ignorable_Code_Point from these tables, without the
// characters that are drawn all the same.
func TestUnseenFindsEveryIgnorable(t *testing.T) {
	t.Parallel()
	for r := rune(0); r <= unicode.MaxRune; r++ {
		ignorable := unicode.In(r, unicode.Other_Default_Ignorable_Code_Point, unicode.Cf, unicode.Variation_Selector)
		if _, found := Unseen("v" + string(r) + "1"); ignorable && !found {
			t.Errorf("%U passes", r)
		}
	}
}
