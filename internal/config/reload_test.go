package config_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/waybill-dev/waybill/internal/bubbletest"
	"github.com/waybill-dev/waybill/internal/config"
	"github.com/waybill-dev/waybill/internal/obs"
	"github.com/waybill-dev/waybill/internal/queue"
)

// reloading is a reloader that runs in a bubble.
type reloading struct {
	t       *testing.T
	file    string
	live    *config.Live
	last    queue.Reload // what was reported
	asked   chan os.Signal
	log     *bytes.Buffer
	metrics *obs.Reload
}

// reload runs a reloader on a file with the content. prepare may be nil.
func reload(t *testing.T, source string, prepare func(context.Context, *config.Config) (func(), error)) *reloading {
	t.Helper()
	r := &reloading{t: t, file: filepath.Join(t.TempDir(), "server.yaml"), asked: make(chan os.Signal, 1),
		log: &bytes.Buffer{}, metrics: obs.NewReload(nil)}
	r.write(source)
	read, err := config.Read(r.file, []byte(source))
	if err != nil {
		t.Fatal(err)
	}
	r.live = config.NewLive(read)
	reloader := config.NewReloader(config.ReloadOptions{File: r.file, Read: []byte(source), Live: r.live, Prepare: prepare, Asked: r.asked,
		Log: slog.New(slog.NewTextHandler(r.log, nil)), Metrics: r.metrics, Report: func(now queue.Reload) { r.last = now }})
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- reloader.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	return r
}

func (r *reloading) write(source string) {
	r.t.Helper()
	if err := os.WriteFile(r.file, []byte(source), 0o600); err != nil {
		r.t.Fatal(err)
	}
}

// look lets the reloader look once more.
func (r *reloading) look() {
	<-time.After(5 * time.Second)
	synctest.Wait()
}

func (r *reloading) lines() int { return strings.Count(r.log.String(), "\n") }

const (
	wait   = "handlers: {wait: {type: noop}}\n"
	broken = "handlers: {wait: {type: noop, retires: 3}}\nunheard: 1\n"
)

func TestAChangedFileComesIntoForceWhole(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		r := reload(t, wait, nil)
		before, changed := r.live.Now(), r.live.Changed()
		r.look()
		if r.live.Now() != before || r.lines() != 0 {
			t.Errorf("nothing changed, and yet: %s", r.log)
		}
		r.write("handlers: {wait: {type: noop}, rest: {type: noop}}\ndefaults: {attemptTimeout: 7}\n")
		r.look()
		select {
		case <-changed:
		default:
			t.Error("the change was not reported")
		}
		now := r.live.Now()
		if len(now.Handlers) != 2 || time.Duration(now.Handlers["wait"].Policy.AttemptTimeout) != 7*time.Second {
			t.Errorf("got %+v", now.Handlers)
		}
		if len(before.Handlers) != 1 {
			t.Error("what was in force was changed; its readers see half of each")
		}
		if got := testutil.ToFloat64(r.metrics.Timestamp); got != float64(r.last.Since.Unix()) {
			t.Errorf("timestamp %v, want that of the reload", got)
		}
		if r.lines() != 1 {
			t.Errorf("want one line for one reload, got\n%s", r.log)
		}
	})
}

func TestABadFileChangesNothingAndIsToldOnce(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		r := reload(t, wait, nil)
		before := r.live.Now()
		r.write(broken)
		r.look()
		r.look()
		if r.live.Now() != before || testutil.ToFloat64(r.metrics.OK) != 0 {
			t.Error("a file with faults is in force")
		}
		want := []string{
			r.file + `:1:31: unknown key "retires" in handlers.wait`,
			r.file + `:2:1: unknown key "unheard"`,
		}
		if diff := cmp.Diff(want, r.last.Faults); diff != "" {
			t.Error(diff)
		}
		if r.lines() != 1 {
			t.Errorf("want one line, got\n%s", r.log)
		}
		r.write(wait) // back to the configuration in force: that counts as well, for it is the content of the file
		r.look()
		if last := r.last; testutil.ToFloat64(r.metrics.OK) != 1 || last.Faults != nil || !last.TriedAt.IsZero() {
			t.Errorf("it was mended, and stays %+v", last)
		}
	})
}

func TestAFileThatIsGoneChangesNothing(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		r := reload(t, wait, nil)
		before := r.live.Now()
		if err := os.Remove(r.file); err != nil {
			t.Fatal(err)
		}
		r.look()
		r.look()
		if r.live.Now() != before || testutil.ToFloat64(r.metrics.OK) != 0 || r.lines() != 1 {
			t.Errorf("log: %s", r.log)
		}
		r.write(wait)
		r.look()
		if testutil.ToFloat64(r.metrics.OK) != 1 {
			t.Error("it is back, and not read")
		}
	})
}

// A ConfigMap is mounted as links to a folder that is replaced; the file itself is never written.
func TestASwappedLinkIsAChange(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		r := reload(t, wait, nil)
		other := filepath.Join(t.TempDir(), "server.yaml")
		if err := os.WriteFile(other, []byte("handlers: {}\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(os.Symlink(other, r.file+".new"), os.Rename(r.file+".new", r.file)); err != nil {
			t.Fatal(err)
		}
		r.look()
		if got := len(r.live.Now().Handlers); got != 0 {
			t.Errorf("%d handlers, want none", got)
		}
	})
}

func TestWhatAProcessStartsWithNeedsARestart(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		r := reload(t, wait, nil)
		r.write(wait + `
ledger: {url: other.db}
blob: {url: other}
server: {listen: 127.0.0.1:1}
conductors: {default: {workers: 3}}
`)
		r.look()
		if diff := cmp.Diff([]string{"ledger", "blob", "server", "conductors"}, r.last.Restart); diff != "" {
			t.Error(diff)
		}
		if now := r.live.Now(); now.Ledger.URL != "" || now.Server != config.Default().Server ||
			now.Conductors[config.DefaultConductor].Workers != 200 {
			t.Errorf("they are in force without a restart: %+v", now)
		}
		if !strings.Contains(r.log.String(), "from the next start only") {
			t.Errorf("not reported: %s", r.log)
		}
	})
}

// The section promoter decides whether a process has the role, so it comes and goes with a restart; its keys are in force at once.
func TestThePromoterComesAndGoesWithARestart(t *testing.T) {
	const with = wait + "promoter: {plainHTTP: true, proposalInterval: 1m}\n"
	for name, c := range map[string]struct {
		before, after string
		restart       []string
		plainHTTP     bool // in force after the change
	}{
		"added":         {before: wait, after: with, restart: []string{"promoter"}},
		"removed":       {before: with, after: wait, restart: []string{"promoter"}, plainHTTP: true},
		"a key removed": {before: with, after: wait + "promoter: {proposalInterval: 3m}\n"},
		"a key added":   {before: wait + "promoter: {proposalInterval: 1m}\n", after: with, plainHTTP: true},
	} {
		t.Run(name, func(t *testing.T) {
			bubbletest.Test(t, func(t *testing.T) {
				r := reload(t, c.before, nil)
				r.write(c.after)
				r.look()
				now := r.live.Now().Promoter
				if diff := cmp.Diff(c.restart, r.last.Restart); diff != "" || (now != nil && now.PlainHTTP) != c.plainHTTP {
					t.Errorf("restart: %s; in force: %+v", diff, now)
				}
				if c.restart != nil && (now == nil) != (name == "added") {
					t.Errorf("the section is in force as %+v without a restart", now)
				}
				if len(r.last.Faults) > 0 || c.restart == nil && now.ProposalInterval == 0 {
					t.Errorf("faults %q; in force: %+v", r.last.Faults, now)
				}
			})
		})
	}
}

// TestTheClusterOfFlowsNeedsARestart: the other keys of flow are in force at once.
func TestTheClusterOfFlowsNeedsARestart(t *testing.T) {
	const with = wait + "flow: {context: dev, elect: false}\n"
	dev := config.Flow{Context: "dev", Applications: []string{"kyma-integration"}}
	for name, c := range map[string]struct {
		before, after string
		restart       []string
		want          *config.Flow // in force after the change
	}{
		"added":           {before: wait, after: with, restart: []string{"flow"}},
		"removed":         {before: with, after: wait, restart: []string{"flow"}, want: &dev},
		"another cluster": {before: with, after: wait + "flow: {context: prod, elect: false}\n", restart: []string{"flow"}, want: &dev},
		"another namespace": {before: with, after: wait + "flow: {context: dev, applications: [a]}\n",
			want: &config.Flow{Context: "dev", Applications: []string{"a"}, Elect: true}},
		"both": {before: with, after: wait + "flow: {context: prod, applications: [a], elect: false}\n", restart: []string{"flow"},
			want: &config.Flow{Context: "dev", Applications: []string{"a"}}},
	} {
		t.Run(name, func(t *testing.T) {
			bubbletest.Test(t, func(t *testing.T) {
				r := reload(t, c.before, nil)
				r.write(c.after)
				r.look()
				if diff := cmp.Diff(c.restart, r.last.Restart); diff != "" {
					t.Error(diff)
				}
				if diff := cmp.Diff(c.want, r.live.Now().Flow); diff != "" {
					t.Error(diff)
				}
			})
		})
	}
}

func TestWhatCannotBePreparedIsRefused(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		var unsound error
		committed := 0
		r := reload(t, wait, func(context.Context, *config.Config) (func(), error) { return func() { committed++ }, unsound })
		r.asked <- os.Interrupt
		synctest.Wait()
		if committed != 1 {
			t.Errorf("committed %d times, want once: a caller asked, whatever the content", committed)
		}
		before := r.live.Now()
		unsound = errors.New("no such cluster")
		r.asked <- os.Interrupt
		synctest.Wait()
		want := queue.Reload{File: r.file, Faults: []string{"no such cluster"}}
		if diff := cmp.Diff(want, r.last, cmpopts.IgnoreFields(queue.Reload{}, "Since", "TriedAt")); diff != "" {
			t.Error(diff)
		}
		if r.live.Now() != before || committed != 1 {
			t.Error("it is in force all the same")
		}
	})
}
