package api_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"

	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/networktest"
)

// resume repeats a call until its stream ends on its own.
func resume(ctx context.Context, call func(context.Context) error) error {
	for {
		err := call(ctx)
		if err == nil || errors.Is(err, errWrong) || ctx.Err() != nil || connect.CodeOf(err) == connect.CodeOutOfRange {
			return err
		}
	}
}

// TestStreamsResumeAfterACutAtAnyByte: whatever part of an answer arrives, the reader receives every entry once.
func TestStreamsResumeAfterACutAtAnyByte(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.finish()
	for name, options := range map[string][]connect.ClientOption{"Connect": nil, "gRPC": {connect.WithGRPC()}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			proxy := networktest.NewCutter(t, s.addr)
			whole := newCopy()
			client, hangUp := dial(proxy.Address(), token, options...)
			if err := whole.takeAll(t.Context(), client); err != nil {
				t.Fatal(err)
			}
			hangUp()
			for at := 1; at < 6000; at += 7 {
				proxy.CutAt(at, at+3, at+5) // all three answers together are shorter than the largest number
				client, hangUp := dial(proxy.Address(), token, options...)
				got := newCopy()
				for _, call := range []func(context.Context) error{
					func(ctx context.Context) error { return got.takeLogs(ctx, client) },
					func(ctx context.Context) error { return got.takeEvents(ctx, client) },
					func(ctx context.Context) error { return got.takeArtifacts(ctx, client) },
				} {
					if err := resume(t.Context(), call); err != nil {
						t.Fatalf("cut after %d bytes: %v", at, err)
					}
				}
				hangUp()
				got.check(t, s)
				if t.Failed() {
					t.Fatalf("cut after %d bytes", at)
				}
			}
		})
	}
}

// TestStreamsResumeWhileTheBuildRuns: connections are cut at random places while steps print.
func TestStreamsResumeWhileTheBuildRuns(t *testing.T) {
	t.Parallel()
	s := serve(t)
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	proxy := networktest.NewCutter(t, s.addr)
	var cuts []int
	for range 200 {
		cuts = append(cuts, 1+random.IntN(200_000))
	}
	proxy.CutAt(cuts...)
	got, ended := newCopy(), make(chan error)
	client, hangUp := dial(proxy.Address(), token, connect.WithGRPC())
	t.Cleanup(hangUp)
	go func() {
		ended <- errors.Join(resume(t.Context(), func(ctx context.Context) error { return got.takeLogs(ctx, client) }),
			resume(t.Context(), func(ctx context.Context) error { return got.takeEvents(ctx, client) }),
			resume(t.Context(), func(ctx context.Context) error { return got.takeArtifacts(ctx, client) }))
	}()
	s.update(0, build.Running)
	var steps sync.WaitGroup
	for _, step := range []int{1, 2} {
		s.update(step, build.Running)
		steps.Go(func() {
			for i := range 20_000 {
				s.print(step, fmt.Sprintf("line %d %s", i, strings.Repeat("x", i%150)))
			}
		})
	}
	steps.Wait()
	s.update(1, build.Completed)
	s.update(2, build.Completed)
	s.update(0, build.Completed)
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	got.check(t, s)
}
