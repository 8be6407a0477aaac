package step

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/queue"
)

// fences are the fences of an attempt's host. The host stores the last one, and refuses attempts with a lower one.
type fences struct {
	own    int64  // fence of the attempt's deployment
	former int64  // the one that the log gave the host before; 0: none, or not known
	found  string // reports that something else had deployed to the host; "": nothing is known of that
}

// fencesOf returns the fences of a step's action. One that an earlier version created has none: its own was the number of the
// deployment.
func fencesOf(a action.Action) fences {
	var p struct{ Fence, Former int64 }
	_ = json.Unmarshal(a.Parameters, &p) // parameters that cannot be read have no fence
	return fences{own: cmp.Or(p.Fence, a.Step.Deployment), former: p.Former}
}

// passes compares the fence that the attempt's own has replaced on the host, such as "12 greeter#12", with what the log gave
// the host last. A log that was restored gives all its fences again, so their eras do not count.
func (t *attempt) passes(fence string) {
	rank, name, _ := strings.Cut(fence, " ")
	n, err := strconv.ParseInt(rank, 10, 64)
	if n &= 1<<queue.EraBits - 1; err != nil || t.fence.former == 0 || n <= t.fence.former {
		return
	}
	t.fence.found = fmt.Sprintf("%s deployed to host %s last, and this log expected #%d at most: another Waybill has "+
		"deployed to it, or this log was "+
		"restored from an older backup, or the host had another address; let only one Waybill deploy to it", name, t.Host.Name, t.fence.former)
}

// sayPassed adds to the output of an attempt, or notes if it failed, that something else had deployed to the host.
func (t *attempt) sayPassed(ctx context.Context, output *Output, err error) {
	switch {
	case t.fence.found == "":
	case err == nil:
		output.Text = strings.TrimPrefix(output.Text+"; "+t.fence.found, "; ")
	default:
		r := t.reporter()
		r.due = r.due.Add(-firstReport)
		r.meets(ctx, errors.New(t.fence.found))
	}
}
