package action_test

import (
	"fmt"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
)

// An attempt is claimed and fails. Next returns the thread with the time of the next attempt; it stores nothing.
func ExampleNext() {
	now := time.Date(2026, 11, 23, 10, 0, 0, 0, time.UTC)
	policy := action.DefaultPolicy()
	policy.Jitter = 0
	a := action.Action{ID: action.NewID(now, [10]byte{1}), Handler: "notify", Lane: "notify", Policy: policy, Delivery: action.AtLeastOnce}
	instance := action.NewID(now, [10]byte{2})

	thread := action.Thread{Status: action.Pending, RunAt: now}
	for _, in := range []action.Input{
		{Kind: action.Claim, By: instance},
		{Kind: action.Ended, Owner: true, Outcome: action.Outcome{Kind: action.Retry, Error: "connection refused"}},
	} {
		t, err := action.Next(a, thread, in, now)
		if err != nil {
			fmt.Println(err)
			return
		}
		thread = t.Thread
		fmt.Println(in.Kind, "->", thread.Status, thread.RunAt.Sub(now))
	}
	// Output:
	// claim -> RUNNING 0s
	// ended -> BACKOFF 5s
}

// The delays grow by the factor up to the maximum.
func ExamplePolicy_Delay() {
	p := action.DefaultPolicy()
	p.Jitter = 0
	for n := 1; n <= 8; n++ {
		fmt.Print(p.Delay(action.ID{}, n), " ")
	}
	// Output: 5s 10s 20s 40s 1m20s 2m40s 5m0s 5m0s
}
