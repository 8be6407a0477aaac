package webhook

import (
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/waybill-dev/waybill/internal/jsonpath"
)

func rule(t *testing.T, result Verdict, message, path string, statuses ...string) Rule {
	t.Helper()
	r := Rule{Result: result}
	for _, s := range statuses {
		if err := r.Status.Add(s); err != nil {
			t.Fatal(err)
		}
	}
	if message != "" {
		r.Message = regexp.MustCompile(message)
	}
	if path != "" {
		var err error
		if r.Path, err = jsonpath.Parse(path); err != nil {
			t.Fatal(err)
		}
	}
	return r
}

func TestTheFirstRuleThatMatchesJudges(t *testing.T) {
	t.Parallel()
	rules := []Rule{
		rule(t, Error, "busy", "", "400"),
		rule(t, Fatal, "", "", "400", "422"),
		rule(t, Success, "", "", "409"),
		rule(t, Error, "", `$.errors[?@.transient == true]`),
		rule(t, Throttle, "(?i)quota", "", "5xx", "2xx"),
	}
	tests := []struct {
		status int
		body   string
		want   Verdict
		rule   int
		why    string
	}{
		{400, "server busy", Error, 1, `rule 1 (message "busy") says error`},
		{400, "bad field", Fatal, 2, "rule 2 says fatal"},
		{422, "", Fatal, 2, "rule 2 says fatal"},
		{409, "", Success, 3, "rule 3 says success"},
		{200, `{"errors":[{"transient":true}]}`, Error, 4, `rule 4 (jsonPath $["errors"][?@["transient"] == true]) says error`},
		{200, `{"errors":[{"transient":false}]}`, Success, 0, ""},
		{200, `{"errors":[`, Success, 0, ""},
		{500, "QUOTA exceeded", Throttle, 5, `rule 5 (message "(?i)quota") says throttle`},
		{202, "over quota", Throttle, 5, `rule 5 (message "(?i)quota") says throttle`},
		{204, "", Success, 0, ""},
		{299, "", Success, 0, ""},
		{301, "", Error, 0, ""},
		{304, "", Error, 0, ""},
		{404, "", Error, 0, ""},
		{410, "", Fatal, 0, "the target is gone for good"},
		{429, "", Throttle, 0, "target refuses work"},
		{500, "", Error, 0, ""},
		{501, "", Error, 0, ""},
		{502, "", Throttle, 0, "target refuses work"},
		{503, "", Throttle, 0, "target refuses work"},
		{504, "", Throttle, 0, "target refuses work"},
	}
	for _, test := range tests {
		got := Judge(rules, Breaker{}, Answer{Status: test.status, Body: []byte(test.body)})
		if want := (Judgement{Verdict: test.want, Rule: test.rule, Why: test.why, Gone: test.status == 410 && test.rule == 0}); got != want {
			t.Errorf("%d %q: got %+v, want %+v", test.status, test.body, got, want)
		}
	}
}

// TestRulesCostLittle: an answer made to be expensive is judged without the rule whose path it is
// aimed at.
func TestRulesCostLittle(t *testing.T) {
	t.Parallel()
	body := strings.Repeat(`{"error":`, 999) + "1" + strings.Repeat("}", 999)
	for path, why := range map[string]string{
		"$..error..code":        "",
		"$..error..error..code": `a rule was left out: jsonPath $..["error"]..["error"]..["code"] looks at too many nodes`,
		"$..[?$..[?$..code]]":   `a rule was left out: jsonPath $..[?$..[?$..["code"]]] looks at too many nodes`,
	} {
		rules := []Rule{rule(t, Success, "", path), rule(t, Fatal, "", "", "400")}
		got := Judge(rules, Breaker{}, Answer{Status: 500, Body: []byte(body)})
		if want := (Judgement{Verdict: Error, Why: why}); got != want {
			t.Errorf("%s: got %+v, want %+v", path, got, want)
		}
		if got := Judge(rules, Breaker{}, Answer{Status: 400, Body: []byte(body)}); got.Verdict != Fatal || got.Rule != 2 {
			t.Errorf("%s: the next rule: %+v", path, got)
		}
	}
	if got := Judge([]Rule{rule(t, Fatal, "", "$[?search(@.x, 'y')]")}, Breaker{},
		Answer{Status: 200, Body: []byte(`[{}]`)}); got.Verdict != Success {
		t.Errorf("a member that is not there: %+v", got)
	}
}

func TestStatusesAreNumbersOrClasses(t *testing.T) {
	t.Parallel()
	var s Statuses
	for _, bad := range []string{"", "99", "600", "6xx", "0xx", "xx", "4x", "-5xx", "abc"} {
		if s.Add(bad) == nil {
			t.Errorf("%q is taken for a status", bad)
		}
	}
	for _, good := range []string{"404", "5XX"} {
		if err := s.Add(good); err != nil {
			t.Error(err)
		}
	}
	if s.String() != "404, 5xx" || !s.has(404) || !s.has(599) || s.has(400) {
		t.Errorf("%s", s)
	}
}

func TestRetryAfterIsCappedAtAnHour(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)
	for text, want := range map[string]time.Duration{
		"120": 2 * time.Minute, " 5 ": 5 * time.Second, "172800": time.Hour, "99999999999999999999": time.Hour, "9223372036854775807": time.Hour,
		"Sat, 21 Nov 2026 10:03:00 GMT": 3 * time.Minute, "Sun, 22 Nov 2026 10:00:00 GMT": time.Hour,
		"Sat, 21 Nov 2026 09:59:00 GMT": 0, "0": 0, "-5": 0, "soon": 0, "": 0, "1.5": 0,
	} {
		at, ok := RetryAfter(http.Header{"Retry-After": {text}}, now)
		if ok != (want > 0) || ok && !at.Equal(now.Add(want)) {
			t.Errorf("%q: %v, %v; want %v", text, at, ok, want)
		}
	}
}
