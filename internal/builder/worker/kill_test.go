package worker_test

import (
	"context"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/builder/worker"
	"github.com/waybill-dev/waybill/internal/command"
	"github.com/waybill-dev/waybill/internal/results"
)

// stubborn starts a child, a daemon in a session of its own and a process that ignores
// SIGTERM, and names them all in the pipe.
const stubborn = `trap "echo asked > \"$WAYBILL_TEST_PIPE\"" TERM
sleep 60 & child=$!
(setsid sleep 60 >/dev/null 2>&1 & echo $! > daemon)
(trap "" TERM HUP; exec sleep 60) & deaf=$!
echo printed before the end
while test ! -s daemon; do sleep 0.01; done
echo $$ $child $(cat daemon) $deaf > "$WAYBILL_TEST_PIPE"
while :; do wait; sleep 0.05; done`

// workToBeKilled runs in the process that is killed.
func workToBeKilled(dir string) {
	plan := planOf(build.PlanStep{Spec: build.Spec{Argv: []string{"/bin/sh", "-c", stubborn}}})
	store, err := results.Create(filepath.Join(dir, "results"), 0)
	if err == nil {
		err = store.Describe(results.Build{ID: "1", Plan: plan})
	}
	if err == nil {
		ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
		defer stop()
		_, err = worker.New(worker.Config{ID: "1", Plan: plan, Workspace: worker.Folder{Root: filepath.Join(dir, "src")},
			Runner: &command.Runner{Supervisor: []string{os.Args[0], "supervise"}, Grace: time.Minute, Keep: []string{"WAYBILL_TEST_PIPE"}},
			Store:  store, Observer: &watch{}, Scratch: filepath.Join(dir, "scratch")}).Run(ctx)
	}
	if err != nil {
		os.Stderr.WriteString(err.Error())
	}
}
