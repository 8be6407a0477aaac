package provisioner_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	provisionerv1 "github.com/waybill-dev/waybill/api/provisioner/v1"
	"github.com/waybill-dev/waybill/internal/builder/provisioner"
	"github.com/waybill-dev/waybill/internal/fault"
)

// roomy serves a platform with room for many workers.
func roomy(t *testing.T, p *platform, limit time.Duration) *provisionerv1.Client {
	t.Helper()
	server := httptest.NewServer(provisioner.New(provisioner.Config{Backend: p, Name: "memory", Keys: keys,
		Concurrent: 100, PerProject: 100, StartLimit: limit,
		Log: slog.New(slog.DiscardHandler), Access: func(context.Context, string) error { return nil }}))
	t.Cleanup(server.Close)
	return clientOf(server.URL)
}

// TestAStartThatHangsHoldsUpNoOther counts as a worker, and is requested once.
func TestAStartThatHangsHoldsUpNoOther(t *testing.T) {
	t.Parallel()
	hanging, released := make(chan struct{}), make(chan struct{})
	var once sync.Once
	p := &platform{hangs: func(_ context.Context, l provisioner.Launch) {
		if l.BuildID == 1 {
			once.Do(func() { close(hanging) })
			<-released
		}
	}}
	client, _ := serving(t, p)
	var all sync.WaitGroup
	created := make(chan bool, 3)
	ask := func() {
		made, err := client.Create(t.Context(), wanted(1, "a"))
		if err != nil || made.Worker.WorkerID != "w1" {
			t.Errorf("%+v, %v", made, err)
		}
		created <- made.New
	}
	all.Go(ask)
	<-hanging
	all.Go(ask)
	all.Go(ask)
	for id := int64(2); id <= 4; id++ {
		if made, err := client.Create(t.Context(), wanted(id, "a")); err != nil || made.Waiting != nil {
			t.Errorf("build %d: %+v, %v", id, made, err)
		}
	}
	if made, err := client.Create(t.Context(), wanted(5, "a")); err != nil || made.Waiting == nil || made.Waiting.Running != 4 {
		t.Errorf("a fifth worker of a project: %+v, %v", made, err)
	}
	close(released)
	all.Wait()
	close(created)
	times := 0
	for one := range created {
		if one {
			times++
		}
	}
	if times != 1 || len(p.workers) != 4 {
		t.Errorf("the worker was made %d times, workers: %+v", times, p.workers)
	}
	if made, err := client.Create(t.Context(), wanted(6, "b")); err != nil || made.Waiting != nil {
		t.Errorf("%+v, %v", made, err)
	}
}

func TestAStartHasItsTime(t *testing.T) {
	t.Parallel()
	p := &platform{hangs: func(ctx context.Context, l provisioner.Launch) {
		if l.BuildID == 1 {
			<-ctx.Done()
		}
	}}
	client := roomy(t, p, time.Millisecond)
	if _, err := client.Create(t.Context(), wanted(1, "a")); !fault.Is(err, fault.Unavailable) ||
		!strings.Contains(err.Error(), "the worker of build 1 did not start within 1ms") {
		t.Error(err)
	}
}

func TestStartsAreBounded(t *testing.T) {
	t.Parallel()
	hanging, released := make(chan struct{}), make(chan struct{})
	p := &platform{hangs: func(context.Context, provisioner.Launch) {
		hanging <- struct{}{}
		<-released
	}}
	client := roomy(t, p, 0)
	var all sync.WaitGroup
	for id := range int64(32) {
		all.Go(func() {
			if _, err := client.Create(t.Context(), wanted(id+1, "a")); err != nil {
				t.Error(err)
			}
		})
		<-hanging
	}
	if _, err := client.Create(t.Context(), wanted(33, "a")); !fault.Is(err, fault.Unavailable) ||
		!strings.Contains(err.Error(), "32 requests for workers are being answered") {
		t.Error(err)
	}
	if list, err := client.List(t.Context(), provisionerv1.Filter{}); err != nil || !list.Complete {
		t.Errorf("%+v, %v", list, err)
	}
	close(released)
	all.Wait()
}

// TestBodiesThatDoNotComeLeaveConnections: they count as starts, and refused requests are answered, and its
// connection closed, without its body.
func TestBodiesThatDoNotComeLeaveConnections(t *testing.T) {
	t.Parallel()
	_, base := serving(t, &platform{})
	slow := func(given, expect string) *bufio.Reader {
		t.Helper()
		var dialer net.Dialer
		connection, err := dialer.DialContext(t.Context(), "tcp", strings.TrimPrefix(base, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = connection.Close() })
		if _, err := fmt.Fprintf(connection,
			"POST /api/worker HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Length: 9\r\n%s\r\n{", given, expect); err != nil {
			t.Fatal(err)
		}
		return bufio.NewReader(connection)
	}
	status := func(answer *bufio.Reader) string {
		t.Helper()
		line, err := answer.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		return line
	}
	for range 32 {
		if got := status(slow(token, "Expect: 100-continue\r\n")); !strings.Contains(got, "100 Continue") { // its body is waited for
			t.Fatal(got)
		}
	}
	for given, want := range map[string]string{token: "503 ", "another": "401 "} {
		answer := slow(given, "")
		if got := status(answer); !strings.Contains(got, want) {
			t.Errorf("want %s: %s", want, got)
		}
		if _, err := io.Copy(io.Discard, answer); err != nil {
			t.Errorf("%s: the connection is not closed: %v", want, err)
		}
	}
}
