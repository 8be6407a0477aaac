package build

import (
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/builder/local"
	"github.com/waybill-dev/waybill/internal/cli/clitest"
	"github.com/waybill-dev/waybill/internal/cli/cmdline"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/results"
)

// TestRerunGivesEveryFlagAgain wants a decision about every flag of waybill run: one that is forgotten might push.
func TestRerunGivesEveryFlagAgain(t *testing.T) {
	t.Parallel()
	otherwise := []string{"file", "environment", "stage", "step", "input", // what build.json has in fields of their own
		"build-id", "results-dir", "resume", "dry-run", "workspace", "watch", "shell", // flags of one build alone, or of none in a folder
		"serve", "listen", "token-file", "linger", "termination-grace", "launch"} // how it is read
	c := &cobra.Command{}
	var flags local.Options
	addRunFlags(&cmdline.App{}, c, &flags)
	c.Flags().VisitAll(func(flag *pflag.Flag) {
		kept := slices.Contains(choiceFlags(), flag.Name) || slices.Contains(choicePaths(), flag.Name)
		if kept == slices.Contains(otherwise, flag.Name) {
			t.Errorf("--%s: want it in choiceFlags, choicePaths or the list here", flag.Name)
		}
	})
}

func TestKeptFlagsMeanTheSameInAnotherFolder(t *testing.T) {
	t.Parallel()
	a := &cmdline.App{}
	a.Dir = "/srv"
	read := func(arguments ...string) (local.Options, []string) {
		c := &cobra.Command{}
		var flags local.Options
		addRunFlags(a, c, &flags)
		if err := c.ParseFlags(arguments); err != nil {
			t.Fatal(err)
		}
		return flags, keptFlags(a, c.Flags())
	}
	_, kept := read("--no-push", "--env", "A", "--env", "B,C", "--secrets", "keys", "--cluster", "dev=kube#a",
		"--cluster", "x", "-i", "pw=secret", "--timeout", "5m")
	want := []string{"--cluster=dev=/srv/kube#a", "--cluster=/srv/x", "--env=A", "--env=B,C", "--no-push=true",
		"--secrets=/srv/keys", "--timeout=5m0s"}
	if diff := cmp.Diff(want, kept); diff != "" {
		t.Error(diff)
	}
	flags, again := read(kept...)
	if diff := cmp.Diff(kept, again); diff != "" || !flags.NoPush || !slices.Equal(flags.Env, []string{"A", "B,C"}) {
		t.Errorf("read again: %v %v\n%s", flags.NoPush, flags.Env, diff)
	}
}

func TestABuildInUseIsLeftAlone(t *testing.T) {
	t.Parallel()
	store, err := results.Create(filepath.Join(t.TempDir(), "1"), 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	if err := store.Describe(results.Build{ID: "1", Plan: &build.Plan{}}); err != nil {
		t.Fatal(err)
	}
	r, err := results.Open(store.Dir())
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		status build.Status
		want   string
	}{{build.Running, "still runs"}, {build.Completed, "still serves the results"}} {
		if _, err := store.Update(0, build.Update{Status: c.status, Timestamp: clitest.Noon()}); err != nil {
			t.Fatal(err)
		}
		if err := inUse(r, "1", "1"); !fault.Is(err, fault.Refused) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", c.status, err, c.want)
		}
	}
	if err := errors.Join(stillRuns(r, results.Build{ID: "1"}), store.Close()); err == nil ||
		!strings.Contains(err.Error(), "has ended: it is Completed") {
		t.Errorf("canceled after its end: %v", err)
	}
	if err := inUse(r, "1", "1"); err != nil {
		t.Errorf("without a worker: %v", err)
	}
}
