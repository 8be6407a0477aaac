package queue_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/queue"
	"github.com/waybill-dev/waybill/internal/sqlite"
	"github.com/waybill-dev/waybill/internal/store"
)

// The queue works alone: without deployments, configuration or a server.
func Example() {
	ctx := context.Background()
	folder, err := os.MkdirTemp("", "queue-")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(folder)
	driver, err := sqlite.Open(ctx, filepath.Join(folder, "queue.db"))
	if err != nil {
		log.Fatal(err)
	}
	db := store.New(driver)
	defer db.Close()
	q := queue.New(db, driver, queue.Options{})
	defer q.Close()

	made, err := q.Enqueue(ctx, action.Action{Kind: "greeting", Name: "hello", Handler: "greet", Parameters: []byte(`{"name": "Ana"}`)})
	if err != nil {
		log.Fatal(err)
	}

	worker := queue.Instance{ID: action.RandomID(time.Now()), Name: "worker", Handlers: []string{"greet"}}
	if err := q.Join(ctx, worker); err != nil {
		log.Fatal(err)
	}
	turn, err := q.CompleteAndClaim(ctx, worker, nil, []queue.Want{{Lane: "greet", N: 10}})
	if err != nil {
		log.Fatal(err)
	}
	var ends []queue.Completion
	for _, claimed := range turn.Claimed {
		fmt.Println("claimed:", claimed.Name, string(claimed.Parameters))
		ends = append(ends, queue.Completion{ID: claimed.ID, Attempt: claimed.Thread.Attempt, Outcome: action.Outcome{Kind: action.Done}})
	}
	if _, err := q.CompleteAndClaim(ctx, worker, ends, nil); err != nil {
		log.Fatal(err)
	}

	state, err := q.Action(ctx, made[0].ID)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("status:", state.Thread.Status)
	// Output:
	// claimed: hello {"name": "Ana"}
	// status: SUCCESSFUL
}
