package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"time"

	"github.com/waybill-dev/waybill/internal/caboose/caboosetest"
	"github.com/waybill-dev/waybill/internal/ledger"
)

// cabooseFaultsFlags declares the flags for how often the archive and the deletion of each workflow
// fail.
func cabooseFaultsFlags(f *flag.FlagSet, o *Options) {
	counted(200)(f, o)
	f.IntVar(&o.ArchiveFails, "archive-fails", 7, "of each workflow; the end is recorded at the fifth")
	f.IntVar(&o.DeleteFails, "delete-fails", 7, "of each workflow")
}

// featuresOfJob is the number of callbacks that follow each job.
const featuresOfJob = 10

// cabooseFaults counts what a caboose gets wrong whose archive and whose cluster fail again and
// again.
func cabooseFaults(ctx context.Context, o Options) ([]Result, error) {
	result := Result{Bench: "caboose-faults", Driver: o.Driver, Unit: "callbacks/s",
		Subject: fmt.Sprintf("%d workflows, each archived at try %d and deleted at try %d", o.N, o.ArchiveFails+1, o.DeleteFails+1)}
	faults := 0
	for range o.Rounds {
		round, err := onDriver(ctx, o, func(driver ledger.Driver) (Round, error) {
			folder, err := os.MkdirTemp("", "waybill-bench-")
			if err != nil {
				return Round{}, err
			}
			defer os.RemoveAll(folder)
			start := time.Now()
			day, err := caboosetest.Run(ctx, driver, folder, caboosetest.Settings{Jobs: o.N, Features: featuresOfJob,
				ArchiveFails: o.ArchiveFails, DeleteFails: o.DeleteFails})
			for _, fault := range day.Faults {
				fmt.Fprintln(os.Stderr, "bench: broken promise:", fault)
			}
			faults += len(day.Faults)
			return measured(day.Callbacks, start), err
		})
		if err != nil {
			return nil, err
		}
		result.Rounds = append(result.Rounds, round)
	}
	result.summarize()
	result.judge("0 duplicate callbacks, 0 callbacks visible before their parameters", faults == 0)
	return []Result{result}, nil
}
