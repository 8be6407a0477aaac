package aggregator

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"connectrpc.com/connect"

	"github.com/waybill-dev/waybill/api/worker/v1/workerv1connect"
	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/builds"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/testresult"
)

// Bounds of a worker's answers.
const (
	mostMessage = 1 << 20   // bytes of one message
	mostListed  = 1000      // events or artifacts of one message
	mostList    = 64 << 20  // bytes of a list
	mostNeeds   = 4_000_000 // needs of all steps
	mostHeader  = 64 << 10  // bytes
)

// errSilence is the cause of a call that a worker did not answer in time.
var errSilence = fault.New(fault.Unavailable, "the worker has been silent for too long")

// client is one connection to a worker.
type client struct {
	worker    workerv1connect.WorkerClient
	http      *http.Client
	base      string
	patience  time.Duration
	transport *http.Transport
}

// connect returns a client with a connection of its own, which is made when it is used.
func (f *follower) connect() *client {
	protocols := &http.Protocols{}
	protocols.SetUnencryptedHTTP2(true)
	transport := &http.Transport{Protocols: protocols, DialContext: f.worker.Dial, MaxResponseHeaderBytes: mostHeader,
		DisableCompression: true,
		HTTP2: &http.HTTP2Config{
			MaxReadFrameSize:          1 << 17, // a batch is one frame
			MaxReceiveBufferPerStream: 1 << 18,
			SendPingTimeout:           f.Silence / 2, PingTimeout: f.Silence,
		}}
	h := &http.Client{Transport: bearer{f.worker.Token, transport}, CheckRedirect: func(*http.Request, []*http.Request) error {
		return errors.New("a worker does not redirect")
	}}
	base := strings.TrimSuffix(f.worker.Address, "/")
	return &client{worker: workerv1connect.NewWorkerClient(h, base, connect.WithGRPC(),
		connect.WithReadMaxBytes(mostMessage), connect.WithAcceptCompression("gzip", nil, nil)),
		http: h, base: base, patience: f.Silence, transport: transport}
}

// close ends the connection.
func (c *client) close() { c.transport.CloseIdleConnections() }

// bearer shows a token with every request.
type bearer struct {
	token string
	http.RoundTripper
}

// RoundTrip sends a request with the token.
func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+b.token)
	return b.RoundTripper.RoundTrip(r)
}

// heard calls a function with each read.
type heard struct {
	io.Reader
	call func()
}

func (h heard) Read(p []byte) (int, error) {
	h.call()
	return h.Reader.Read(p)
}

// get has take read each element of the list that the answer has under a key. The list may take its time as long as
// more of it comes. An answer 404, which an older worker gives, has none.
func (c *client) get(ctx context.Context, path, key string, take func(*json.Decoder) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	watch := time.AfterFunc(c.patience, func() { cancel(errSilence) })
	defer watch.Stop()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, c.base+path, nil)
	if err != nil {
		return err
	}
	response, err := c.http.Do(request)
	if err != nil {
		return fmt.Errorf("ask the worker: %w", silent(ctx, err))
	}
	defer response.Body.Close()
	if response.StatusCode == http.StatusNotFound {
		return nil
	}
	if response.StatusCode != http.StatusOK {
		return fault.New(fault.Unavailable, "ask the worker for %s: %s", path, response.Status)
	}
	body := heard{response.Body, func() { watch.Reset(c.patience) }}
	if err := readList(io.LimitReader(body, mostList), key, take); err != nil {
		return fmt.Errorf("ask the worker for %s: %w", path, silent(ctx, err))
	}
	return nil
}

// steps lists the steps as planned, each of which needs only steps of the list: pages and commands look these up.
func (c *client) steps(ctx context.Context) ([]builds.Step, error) {
	steps, err := c.listSteps(ctx)
	known := map[int]bool{}
	for i := range steps {
		known[steps[i].ID] = true
	}
	for i := range steps {
		for _, need := range steps[i].Needs {
			if !known[need] {
				return nil, fault.New(fault.Corrupt, "step %d needs step %d, which the build does not have", steps[i].ID, need)
			}
		}
	}
	return steps, err
}

func (c *client) listSteps(ctx context.Context) (steps []builds.Step, err error) {
	needs := 0
	return steps, c.get(ctx, "/api/build/step", "steps", func(d *json.Decoder) error {
		var s struct {
			StepID      int
			Stage, Name string
			Needs       list[int]
			Identity    string
		}
		if err := d.Decode(&s); err != nil {
			return err
		}
		if needs += len(s.Needs); needs > mostNeeds {
			return fault.New(fault.Corrupt, "the steps have more than %d needs", mostNeeds)
		}
		steps = append(steps, builds.Step{ID: s.StepID, Stage: s.Stage, Name: s.Name, Needs: append([]int{}, s.Needs...), Identity: s.Identity})
		return nil
	})
}

// tests lists the reports of an ended step's files about tests.
func (c *client) tests(ctx context.Context, step int) (reports []build.TestFile, err error) {
	found := 0
	return reports, c.get(ctx, fmt.Sprintf("/api/build/step/%d/test-result", step), "files", func(d *json.Decoder) error {
		var t struct {
			build.TestFile
			Results list[testresult.Result] `json:"results"` // counted, unlike those of TestFile
		}
		if err := d.Decode(&t); err != nil {
			return err
		}
		if found += len(t.Results); found > mostItems {
			return fault.New(fault.Corrupt, "step %d has more than %d tests", step, mostItems)
		}
		t.TestFile.Step, t.TestFile.Results = step, t.Results
		reports = append(reports, t.TestFile)
		return nil
	})
}
