package config

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/waybill-dev/waybill/internal/action"
)

// TestHandlersShareWhatTheyHaveInCommon: a free key holds what handlers merge into
// theirs; what a handler writes out wins, wherever it is, and of several merged mappings the
// first.
func TestHandlersShareWhatTheyHaveInCommon(t *testing.T) {
	t.Parallel()
	c := read(t, `
x-slow: &slow
  attemptTimeout: 1m
  backoff: &patient {retries: 9, initial: 2s}
x-once: &once {delivery: at-most-once, attemptTimeout: 5s, deadline: 1h}
x-unused: [1, {any: thing}, ~]
handlers:
  alias: {type: noop, backoff: *patient}
  merged: {<<: *slow, type: noop}
  own: {attemptTimeout: 2m, <<: *slow, type: noop, backoff: {<<: *patient, retries: 1}}
  first: {type: noop, <<: [*slow, *once]}
`)
	second := func(n int) action.Duration { return action.Duration(time.Duration(n) * time.Second) }
	for name, want := range map[string]func(*action.Policy){
		"alias":  func(p *action.Policy) { p.Retries, p.Initial = 9, second(2) },
		"merged": func(p *action.Policy) { p.Retries, p.Initial, p.AttemptTimeout = 9, second(2), second(60) },
		"own":    func(p *action.Policy) { p.Retries, p.Initial, p.AttemptTimeout = 1, second(2), second(120) },
		"first": func(p *action.Policy) {
			p.Retries, p.Initial, p.AttemptTimeout, p.Deadline = 9, second(2), second(60), second(3600)
		},
	} {
		policy := action.DefaultPolicy()
		want(&policy)
		if diff := cmp.Diff(policy, c.Handlers[name].Policy); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	if got := c.Handlers["first"].Delivery; got != action.AtMostOnce {
		t.Errorf("first: %s, want what the second mapping says", got)
	}
}

// TestFaultsOfSharedPartsAreTold: where it is written, and who takes it from there.
func TestFaultsOfSharedPartsAreTold(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		text string
		want []string
	}{
		"what is merged": {"x-a: &a {retires: 3}\nhandlers:\n  n: {type: noop, backoff: {<<: *a}}\n",
			[]string{`server.yaml:1:10: unknown key "retires" (used at 3:33) in handlers.n.backoff (did you mean "retries"?)`}},
		"free keys are at the top": {"handlers:\n  n: {type: noop, x-a: 1}\n", []string{`server.yaml:2:19: unknown key "x-a" in handlers.n`}},
		"an anchor that is not there": {"handlers:\n  n: {type: noop, backoff: *a}\n",
			[]string{`server.yaml:2:28: the alias *a names no anchor above it`}},
	} {
		_, problems := Check("server.yaml", []byte(c.text))
		var got []string
		for _, p := range problems {
			got = append(got, p.String())
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
