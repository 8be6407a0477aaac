package main

import (
	"context"
	"flag"
	"fmt"
	"strings"
	"time"

	"github.com/waybill-dev/waybill/internal/promoter"
)

// recheckEvery is the interval at which controllers look at each application again.
const recheckEvery = 10 * time.Minute

// metadataRate is the number of metadata updates in each leaf, a second.
const metadataRate = 10

// idleFleetFlags declares the flags of promotion-idle.
func idleFleetFlags(f *flag.FlagSet, o *Options) {
	fleetFlags(f, o)
	f.DurationVar(&o.For, "for", time.Minute, "how long to measure; within it all pipelines are decided again once")
	o.Rounds = 1
}

// promotionIdle measures a promoter beside a large fleet at rest. Events come at the rates of a whole hour; only the decisions
// about all pipelines from memory come more often: once in the time of the measurement instead of every ten minutes.
func promotionIdle(ctx context.Context, o Options) ([]Result, error) {
	results := []Result{
		{Subject: fmt.Sprintf("CPU, metadata updates %d/s in each leaf and re-checks, for %s", metadataRate, o.For), Unit: "% of a core"},
		{Subject: "CPU, metadata updates alone", Unit: "% of a core"},
		{Subject: "decisions from metadata updates"},
		{Subject: "rows written"},
		{Subject: "requests that write to the management cluster"},
	}
	for range o.Rounds {
		figures, err := idleFleetRound(ctx, o)
		if err != nil {
			return nil, err
		}
		for i, figure := range figures {
			results[i].Rounds = append(results[i].Rounds, Round{Ops: 1, PerSecond: figure, Seconds: o.For.Seconds()})
		}
	}
	for i := range results {
		r := &results[i]
		r.Bench, r.Driver = "promotion-idle", o.Driver
		r.summarize()
		switch i {
		case 0:
			r.judge("at most 1 %", r.Median <= 1)
		case 2, 3, 4:
			r.judge("0", r.Median == 0)
		}
	}
	if o.Original != "" {
		percent, patches, err := originalIdle(ctx, o)
		if err != nil {
			return nil, err
		}
		for i, figure := range []float64{percent, patches} {
			r := Result{Bench: "promotion-idle", Version: "2ca1d66", Rounds: []Round{{PerSecond: figure}}}
			r.Subject = "original controller, " + []string{"CPU with the same events", "patches of statuses"}[i]
			r.Unit = []string{"% of a core", ""}[i]
			r.summarize()
			results = append(results, r)
		}
	}
	return results, nil
}

// idleFleetRound measures all figures once.
func idleFleetRound(ctx context.Context, o Options) (figures [5]float64, err error) {
	p, err := promote(ctx, o, func(c *promoter.Config) { c.LookAgain = 2*o.For + 30*time.Second })
	if err != nil {
		return figures, err
	}
	defer p.end()
	if _, err = p.decided(ctx, p.began, firstRevision); err != nil {
		return figures, err
	}
	pause(ctx, 5*time.Second) // the last views and statuses
	before, err := p.written(ctx)
	if err != nil {
		return figures, err
	}
	if _, err = p.do(fleetOrder{Do: "metadata", Rate: metadataRate * float64(o.Leaves)}); err != nil {
		return figures, err
	}
	looks := p.promoter.Looks()
	figures[1] = busy(ctx, o.For)
	figures[2] = float64(p.promoter.Looks() - looks)
	rate := float64(p.size.applications()) / recheckEvery.Seconds()
	if _, err = p.do(fleetOrder{Do: "recheck", Rate: rate}); err != nil {
		return figures, err
	}
	figures[0] = busy(ctx, time.Until(p.began.Add(2*o.For+35*time.Second))) // at its end all are decided again
	after, err := p.written(ctx)
	figures[3], figures[4] = after[0]-before[0], after[1]-before[1]
	return figures, err
}

// busy returns the share of a core that this process uses, in percent.
func busy(ctx context.Context, d time.Duration) float64 {
	began, used := time.Now(), ownCPU()
	pause(ctx, d)
	return 100 * float64(ownCPU()-used) / float64(time.Since(began))
}

// written returns the changes of pipelines in the log, and the requests that write to the management cluster.
func (p *promoting) written(ctx context.Context) (counts [2]float64, err error) {
	if err := p.rows.QueryRowContext(ctx, `SELECT sum(seq) FROM promotion_head`).Scan(&counts[0]); err != nil {
		return counts, err
	}
	answer, err := p.do(fleetOrder{Do: "count"})
	for request, n := range answer.Requests {
		if verb, _, _ := strings.Cut(request, " "); verb == "create" || verb == "patch" || verb == "update" {
			counts[1] += float64(n)
		}
	}
	return counts, err
}
