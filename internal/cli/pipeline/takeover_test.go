package pipeline

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/waybill-dev/waybill/internal/cli/clitest"
	"github.com/waybill-dev/waybill/internal/conductor/handler/step"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/pipeline"
)

// fencedHosts are hosts by name: the log that each follows; one whose name begins with "away" does not answer.
type fencedHosts map[string]string

func (h fencedHosts) Look(_ context.Context, at pipeline.Place, _ string) (step.State, bool, error) {
	if strings.HasPrefix(at.Host.Name, "away") {
		return step.State{}, false, errors.New("no answer")
	}
	ledger := h[at.Host.Name]
	return step.State{Ledger: ledger, Deployment: "greeter#9"}, ledger != "", nil
}

func (h fencedHosts) TakeOver(_ context.Context, at pipeline.Place, _, ledger, _ string) error {
	h[at.Host.Name] = ledger
	return nil
}

// takenLog keeps notes; with an error it keeps nothing.
type takenLog struct {
	mu      sync.Mutex
	entries []pipeline.Entry
	err     error
}

func (l *takenLog) Remark(_ context.Context, _ string, e pipeline.Entry) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err == nil {
		l.entries = append(l.entries, e)
	}
	return l.err
}

// TestATakeOverIsAnEntryOfTheLog that names the old and the new owner. A take-over that could not be noted is an
// error.
func TestATakeOverIsAnEntryOfTheLog(t *testing.T) {
	t.Parallel()
	d := pipeline.Definition{Pipeline: "greeter", Stages: []pipeline.Stage{{Name: "prod", Groups: []pipeline.Group{{Name: "all",
		Hosts: []pipeline.Host{{Name: "oak", URL: "local://oak"}, {Name: "elm", URL: "local://elm"}}}}}}}
	places, err := namedHosts(&d, nil, false)
	if err != nil {
		t.Fatal(err)
	}
	for _, broken := range []error{nil, errors.New("disk full")} {
		log, out := &takenLog{err: broken}, clitest.NewOutput(false)
		err := runTakeOver(t.Context(), takeOverOptions{Definition: &d, Places: places,
			Hosts: fencedHosts{"oak": "theirs", "elm": "ours"}, Log: log,
			Ledger: "ours", By: "ana", Ask: func(context.Context, string) bool { return true }, Out: out.Printer})
		if broken != nil {
			if !fault.Is(err, fault.Failed) || !strings.Contains(out.Printed.String(),
				"taken over, but the log does not say so: disk full") {
				t.Errorf("%v, printed %q", err, out.Printed.String())
			}
			continue
		}
		want := []pipeline.Entry{{Target: "greeter/prod/all/oak", Event: "service-taken-over", Class: pipeline.Change,
			Detail: []byte(`{"by":"ana","service":"greeter","ledger":"theirs","deployment":"greeter#9"}`)}}
		if diff := cmp.Diff(want, log.entries); err != nil || diff != "" {
			t.Errorf("%v, entries -want +got:\n%s", err, diff)
		}
	}
}

// TestOnlyForeignHostsAreTakenOver, and only after a yes. A host that does not answer is an error, and keeps no other one.
func TestOnlyForeignHostsAreTakenOver(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		hosts     map[string]string
		yes       bool
		code      fault.Code // "": no error
		text, oak string
	}{
		"a yes":          {map[string]string{"oak": "theirs", "elm": "ours", "fir": ""}, true, "", "took over 1 host", "ours"},
		"a no":           {map[string]string{"oak": "theirs"}, false, fault.Refused, "", "theirs"},
		"nothing to do":  {map[string]string{"oak": "ours", "fir": ""}, false, "", "no host follows another log", "ours"},
		"only one, away": {map[string]string{"away": ""}, true, fault.Failed, "no host that answered follows another log", ""},
		"one is away":    {map[string]string{"oak": "theirs", "away": ""}, true, fault.Failed, "took over 1 host", "ours"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			hosts := make(fencedHosts)
			d := pipeline.Definition{Pipeline: "greeter", Stages: []pipeline.Stage{{Name: "prod", Groups: []pipeline.Group{{Name: "all"}}}}}
			group := &d.Stages[0].Groups[0]
			for host, ledger := range c.hosts {
				hosts[host] = ledger
				group.Hosts = append(group.Hosts, pipeline.Host{Name: host, URL: "local://" + host})
			}
			places, err := namedHosts(&d, nil, false)
			if err != nil {
				t.Fatal(err)
			}
			out := clitest.NewOutput(false)
			err = runTakeOver(t.Context(), takeOverOptions{Definition: &d, Places: places, Hosts: hosts, Log: &takenLog{},
				Ledger: "ours", By: "ana",
				Ask: func(context.Context, string) bool { return c.yes }, Out: out.Printer})
			if c.code == "" && err != nil || c.code != "" && !fault.Is(err, c.code) {
				t.Errorf("%v, want %q", err, c.code)
			}
			if hosts["oak"] != c.oak || !strings.Contains(out.Printed.String(), c.text) {
				t.Errorf("oak follows %s, printed %q", hosts["oak"], out.Printed.String())
			}
		})
	}
}
