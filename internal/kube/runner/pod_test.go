package runner

import (
	"errors"
	"testing"
	"time"

	"github.com/waybill-dev/waybill/internal/build"
)

type notes struct {
	build.Sink
	all []string
}

func (n *notes) Note(text string) error {
	n.all = append(n.all, text)
	return nil
}

// TestWhoseFaultAPodIs decides whether a step is tried again with "on: [infrastructure]". The text of a back-off does
// not have the reason.
func TestWhoseFaultAPodIs(t *testing.T) {
	t.Parallel()
	refused := verdict{Outcome: wait, Text: "ImagePull: shop:9: not found", Patience: time.Hour, OfStep: true}
	backoff := verdict{Outcome: wait, Text: "ImagePull: Back-off pulling image", Patience: time.Nanosecond}
	for name, c := range map[string]struct {
		seen []verdict
		want bool
	}{
		"no such image": {[]verdict{refused, backoff}, true},
		"registry away": {[]verdict{backoff}, false},
		"bad name":      {[]verdict{{Outcome: failed, Text: "ImagePull: bad", OfStep: true}}, true},
		"deadline":      {[]verdict{{Outcome: failed, Text: "DeadlineExceeded: bad"}}, false},
	} {
		a := &podAttempt{sink: &notes{}, watched: map[string]bool{}}
		since := map[string]trouble{}
		var err error
		for _, v := range c.seen {
			_, err = a.act(v, false, since)
		}
		_, got := errors.AsType[*build.StepError](err)
		if err == nil || got != c.want {
			t.Errorf("%s: %v is the step's own fault: %t, want %t", name, err, got, c.want)
		}
	}
}
