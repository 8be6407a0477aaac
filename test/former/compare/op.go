package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/waybill-dev/waybill/internal/pipeline"
)

// op is one thing that happens to both engines. A program is a list of ops, and means the same when
// some are left out: what no longer fits is passed over.
type op struct {
	Do       string
	Now      time.Time            `json:",omitzero"`
	Limit    int                  `json:",omitempty"` // of a pass
	Key      *pipeline.StepKey    `json:",omitempty"` // of the action that ends
	Row      *pipeline.Entry      `json:",omitempty"`
	Rows     []pipeline.Entry     `json:",omitempty"` // that no engine would write
	Edit     *pipeline.Definition `json:",omitempty"`
	Wish     json.RawMessage      `json:",omitempty"`
	Reject   bool                 `json:",omitempty"`
	Revision int64                `json:",omitempty"`
	Until    time.Time            `json:",omitzero"`
	Part     int                  `json:",omitempty"` // of 1000 of the log
}

// What ops do.
const (
	doClock    = "clock"    // the time is Now
	doDecide   = "decide"   // a pass of at most Limit rows
	doEnd      = "end"      // Row ends the action of Key, if it is live
	doRow      = "row"      // Row is folded
	doEdit     = "edit"     // Edit becomes the definition, if it is not refused
	doPlan     = "plan"     // what Edit would do
	doCommand  = "command"  // Wish is a pipeline.Command
	doRollback = "rollback" // Wish is a pipeline.Rollback
	doCatchUp  = "catch-up" // Wish is a pipeline.CatchUp
	doJudge    = "judge"    // Revision is rejected or accepted
	doFreeze   = "freeze"   // until Until
	doThaw     = "thaw"
	doRefold   = "refold"   // a part of the log is folded again; with all of it the program continues on that
	doWild     = "wild"     // Rows are folded after a part of the log, aside
	doSimulate = "simulate" // Wish is a pipeline.Scenario, played aside
)

// String returns the op as one line.
func (o op) String() string {
	switch {
	case o.Row != nil && o.Key != nil && o.Key.Event == o.Row.Event:
		return o.Do + " " + line(*o.Row)
	case o.Row != nil:
		return o.Do + " " + line(*o.Row) + " " + string(o.Row.Detail)
	case o.Rows != nil:
		text := fmt.Sprintf("%s after %d of 1000", o.Do, o.Part)
		for _, row := range o.Rows {
			text += "; " + line(row) + " " + string(row.Detail)
		}
		return text
	case o.Edit != nil:
		return o.Do + " " + string(raw(o.Edit))
	case o.Wish != nil:
		return o.Do + " " + string(o.Wish)
	case o.Do == doDecide:
		return fmt.Sprintf("%s %d", o.Do, o.Limit)
	}
	return strings.TrimSuffix(strings.TrimPrefix(string(raw(o)), `{"Do":`), "}")
}

// line returns what a row says, without its detail.
func line(row pipeline.Entry) string {
	text := fmt.Sprintf("%s %s %s", row.Target, row.Event, row.Class)
	if row.Deployment > 0 {
		text = fmt.Sprintf("#%d %s", row.Deployment, text)
	}
	if row.Revision > 0 {
		text += fmt.Sprintf(" r%d", row.Revision)
	}
	return text
}

// raw returns a value as JSON. It is called with plain data only.
func raw(v any) json.RawMessage {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return text
}
