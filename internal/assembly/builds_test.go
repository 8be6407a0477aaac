package assembly

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	provisionerv1 "github.com/waybill-dev/waybill/api/provisioner/v1"
	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/builds"
	"github.com/waybill-dev/waybill/internal/kube"
	"github.com/waybill-dev/waybill/internal/sqlite"
	"github.com/waybill-dev/waybill/internal/store"
)

// TestANewWorkerWakesTheAggregator at once.
func TestANewWorkerWakesTheAggregator(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	wake, waits := make(chan struct{}, 1), make(chan store.Topic)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		wakeUp(ctx, func(ctx context.Context, topic store.Topic, _ time.Time) error {
			select {
			case waits <- topic:
				return nil
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}, wake)
	}()
	if topic := <-waits; topic != store.TopicWorker {
		t.Errorf("it waits for %q", topic)
	}
	<-wake
	cancel()
	<-ended
}

// TestAWorkerThatCannotBeReachedHidesNoOther and one whose cluster cannot be opened is reached once it can.
func TestAWorkerThatCannotBeReachedHidesNoOther(t *testing.T) {
	t.Parallel()
	d, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "waybill.db"))
	if err != nil {
		t.Fatal(err)
	}
	db := store.New(d)
	t.Cleanup(func() { _ = db.Close() })
	stored := builds.New(db, d, builds.Options{})
	list := provisionerv1.WorkerList{Complete: true, Now: time.Now()}
	for _, address := range []string{"pod://builds", "pod://builds/worker-2:5010?uid=u2", "http://127.0.0.1:5010"} {
		row, err := stored.Create(t.Context(), builds.Build{Project: "shop", Nonce: "mYoP3hQWq0JbUuV2"})
		if err != nil {
			t.Fatal(err)
		}
		list.Workers = append(list.Workers, provisionerv1.Worker{BuildID: int64(row.ID), WorkerID: "w", Instance: "waybill",
			Status: "Running", Address: address, Key: 1})
	}
	listing := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _ = json.NewEncoder(w).Encode(list) }))
	defer listing.Close()
	opened := 0
	l := listedWorkers{client: &provisionerv1.Client{URL: listing.URL, Token: func() (string, error) { return "t", nil }},
		keys: build.BuilderKeys{{Number: 1, Secret: []byte("0123456789abcdef")}}, instance: "waybill", builds: stored,
		share: share{shard: build.Shard{Index: 1, Count: 1}},
		cluster: untilOpened(func() (*kube.Cluster, error) {
			if opened++; opened == 1 {
				return nil, errors.New("the file is being replaced")
			}
			return &kube.Cluster{}, nil
		})}
	workers, err := l.Workers(t.Context())
	if err != nil || len(workers) != 3 || workers[2].Address != "http://127.0.0.1:5010" || workers[2].Dial != nil {
		t.Fatalf("%+v, %v", workers, err)
	}
	for i, want := range []string{`the address "pod://builds"`, "the file is being replaced"} {
		if _, err := workers[i].Dial(t.Context(), "", ""); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	for range 2 {
		if cluster, err := l.cluster(); cluster == nil || err != nil || opened != 2 {
			t.Errorf("%v, %v after %d tries", cluster, err, opened)
		}
	}
}
