package cli_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/waybill-dev/waybill/internal/ledger"
	"github.com/waybill-dev/waybill/internal/promotion"
	"github.com/waybill-dev/waybill/internal/servertest"
	"github.com/waybill-dev/waybill/internal/sqlite"
)

// promote HOME [approval|broken] stores the worked example of promotion in the log of a home, as a promoter has recorded it: the pull
// request for prod is open, or prod waits for an approval, or a target of prod is not there.
func promote(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) == 0 {
		ts.Fatalf("usage: promote home [approval|broken]")
	}
	var change func(*promotion.Input, *promotion.Plan)
	switch {
	case len(args) > 1 && args[1] == "broken":
		change = servertest.LoseTarget
	case len(args) > 1:
		change = servertest.AwaitApproval
	}
	ts.Check(storePodinfo(ts.MkAbs(args[0]), change))
}

func storePodinfo(home string, change func(*promotion.Input, *promotion.Plan)) (err error) {
	if err := os.MkdirAll(home, 0o700); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	driver, err := sqlite.Open(ctx, filepath.Join(home, "waybill.db"))
	if err != nil {
		return fmt.Errorf("open the log: %w", err)
	}
	l := ledger.New(driver, ledger.Options{})
	defer func() {
		if closed := l.Close(); err == nil {
			err = closed
		}
	}()
	in, plan := servertest.Podinfo(time.Now().UTC().Truncate(time.Microsecond), change)
	return servertest.StorePodinfo(ctx, l, in, plan)
}
