package admission_test

import (
	"testing"
	"time"

	"github.com/waybill-dev/waybill/internal/admission"
	"github.com/waybill-dev/waybill/internal/fault"
)

func TestFreezeIsInForceUntilItsEnd(t *testing.T) {
	t.Parallel()
	var none *admission.Freeze
	ends := &admission.Freeze{Until: friday}
	for _, c := range []struct {
		name   string
		freeze *admission.Freeze
		now    time.Time
		want   bool
	}{
		{"none", none, friday, false},
		{"without an end", &admission.Freeze{}, friday.AddDate(100, 0, 0), true},
		{"before its end", ends, friday.Add(-time.Nanosecond), true},
		{"at its end", ends, friday, false},
	} {
		if got := c.freeze.InForce(c.now); got != c.want {
			t.Errorf("%s: got %v, want %v", c.name, got, c.want)
		}
	}
}

func TestFreezeSaysWhoAndUntilWhen(t *testing.T) {
	t.Parallel()
	for want, freeze := range map[string]admission.Freeze{
		"frozen":        {},
		"frozen by ana": {By: "ana"},
		`frozen by ana until Mon 11:00 UTC: "holidays"`:   {By: "ana", Until: friday.AddDate(0, 0, 3), Reason: "holidays"},
		`frozen until Fri 20 Mar 11:00 UTC: "two\nlines"`: {Until: friday.AddDate(0, 0, 7).In(time.FixedZone("", 3600)), Reason: "two\nlines"},
	} {
		if got := freeze.Text(friday); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

func TestFreezeIsNeitherReplacedNorSetInThePast(t *testing.T) {
	t.Parallel()
	var none *admission.Freeze
	over := &admission.Freeze{Until: friday}
	active := &admission.Freeze{By: "ana", Until: friday.Add(time.Hour)}
	for _, c := range []struct {
		name   string
		before *admission.Freeze
		until  time.Time
		code   fault.Code
		text   string
	}{
		{"first", none, time.Time{}, "", ""},
		{"after one that has ended", over, friday.Add(time.Nanosecond), "", ""},
		{"another", active, time.Time{}, fault.Refused, "shop is already frozen by ana until Fri 12:00 UTC"},
		{"another in the past", active, friday, fault.Refused, "shop is already frozen by ana until Fri 12:00 UTC"},
		{"ends now", none, friday, fault.Invalid, "the freeze would end at 2026-03-13T11:00:00Z, which has passed"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			wantFault(t, c.before.CheckSet(admission.Freeze{Until: c.until}, "shop", friday), c.code, c.text)
		})
	}
}

func TestOnlyAFreezeInForceIsCleared(t *testing.T) {
	t.Parallel()
	var none *admission.Freeze
	wantFault(t, none.CheckClear("shop", friday), fault.Refused, "shop is not frozen")
	wantFault(t, (&admission.Freeze{Until: friday}).CheckClear("shop", friday), fault.Refused, "shop is not frozen")
	wantFault(t, (&admission.Freeze{}).CheckClear("shop", friday), "", "")
}

// wantFault fails the test unless an error has a code and a text; code "" wants none.
func wantFault(t *testing.T, err error, code fault.Code, text string) {
	t.Helper()
	switch {
	case code == "" && err != nil:
		t.Errorf("got %v, want no error", err)
	case code != "" && (!fault.Is(err, code) || err.Error() != text):
		t.Errorf("got %v, want %s: %s", err, code, text)
	}
}
