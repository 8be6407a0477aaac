package provisionerv1

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/obs"
)

// Client asks a provisioner. Safe for concurrent use.
type Client struct {
	URL   string                 // such as http://127.0.0.1:5009
	Token func() (string, error) // read for every request, since it may be replaced
	HTTP  *http.Client           // nil: one that follows no redirects
}

// Bounds of an answer.
const (
	mostAnswer     = 16 << 20 // bytes
	mostPages      = 1000
	pageSize       = 1000
	requestTimeout = 10 * time.Minute
	longestRetry   = 10 * time.Minute
)

// errSlow is the cause with which a request ends that takes too long.
var errSlow = errors.New("the provisioner took too long to answer")

// Created is the answer to a request for a worker.
type Created struct {
	Worker  Worker
	New     bool          // false: the build has had it
	Waiting *Waiting      // not nil: the limits leave room for none yet, and Worker is empty
	Retry   time.Duration // with Waiting: when to ask again; 0: the provisioner does not say
}

// Create starts the worker of a build. Doing it again with the same request returns the same worker. A provisioner that cannot be
// reached is fault.Unavailable; a build that has a worker of another request is fault.Conflict.
func (c *Client) Create(ctx context.Context, request CreateWorker) (Created, error) {
	a, err := c.do(ctx, http.MethodPost, "/api/worker", request)
	created := Created{New: a.status == http.StatusCreated, Waiting: a.waiting, Retry: a.retry}
	if err == nil && a.waiting == nil {
		err = decode(a.text, &created.Worker)
	}
	if err != nil {
		return Created{}, fmt.Errorf("create the worker of build %d: %w", request.BuildID, err)
	}
	return created, nil
}

// Filter selects the listed workers. The zero Filter lists all.
type Filter struct {
	Statuses []string
	BuildID  int64
	Instance string
}

// List returns the workers on all pages. It is complete if every page is.
func (c *Client) List(ctx context.Context, filter Filter) (WorkerList, error) {
	query := url.Values{"limit": {strconv.Itoa(pageSize)}}
	if filter.Statuses != nil {
		query["status"] = filter.Statuses
	}
	if filter.BuildID != 0 {
		query.Set("buildId", strconv.FormatInt(filter.BuildID, 10))
	}
	if filter.Instance != "" {
		query.Set("instance", filter.Instance)
	}
	all := WorkerList{Complete: true}
	for range mostPages {
		var page WorkerList
		a, err := c.do(ctx, http.MethodGet, "/api/worker?"+query.Encode(), nil)
		if err == nil {
			err = decode(a.text, &page)
		}
		if err != nil {
			return WorkerList{}, fmt.Errorf("list workers: %w", err)
		}
		all.Workers = append(all.Workers, page.Workers...)
		all.Complete, all.Now = all.Complete && page.Complete, page.Now
		if page.Cursor == "" {
			return all, nil
		}
		query.Set("cursor", page.Cursor)
	}
	all.Complete = false
	return all, nil
}

// Delete ends and removes a worker; one that is gone is deleted. By force it is killed at once.
func (c *Client) Delete(ctx context.Context, workerID string, force bool) error {
	path := "/api/worker/" + url.PathEscape(workerID)
	if force {
		path += "?force=true"
	}
	if _, err := c.do(ctx, http.MethodDelete, path, nil); err != nil {
		return fmt.Errorf("delete worker %s: %w", workerID, err)
	}
	return nil
}

// answer is the provisioner's answer to a request that it did not refuse.
type answer struct {
	status  int
	text    []byte
	waiting *Waiting      // not nil: the limits leave no room yet
	retry   time.Duration // with waiting: see Created
}

// do sends a request, and reads the answer.
func (c *Client) do(ctx context.Context, method, path string, body any) (answer, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, requestTimeout, errSlow)
	defer cancel()
	request, err := c.request(ctx, method, path, body)
	if err != nil {
		return answer{}, err
	}
	client := c.HTTP
	if client == nil { // a redirect would carry the token elsewhere
		client = &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	}
	response, err := client.Do(request)
	if err != nil {
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		return answer{}, fault.New(fault.Unavailable, "ask the provisioner: %w", err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, mostAnswer+1))
	if err == nil && len(text) > mostAnswer {
		err = fmt.Errorf("more than %d bytes", mostAnswer)
	}
	if err != nil {
		return answer{}, fault.New(fault.Unavailable, "read the provisioner's answer: %w", err)
	}
	if response.StatusCode/100 == 2 {
		return answer{status: response.StatusCode, text: text}, nil
	}
	problem := readProblem(response, text)
	if problem.Waiting != nil {
		return answer{status: response.StatusCode, waiting: problem.Waiting, retry: retryAfter(response.Header)}, nil
	}
	return answer{}, problem.toError()
}

// retryAfter reads when to ask again; 0 if the answer does not say, or says what cannot be.
func retryAfter(header http.Header) time.Duration {
	seconds, err := strconv.ParseUint(header.Get("Retry-After"), 10, 31)
	if err != nil {
		return 0
	}
	return min(time.Duration(seconds)*time.Second, longestRetry)
}

func (c *Client) request(ctx context.Context, method, path string, body any) (*http.Request, error) {
	token, err := c.Token()
	if err != nil {
		return nil, fault.New(fault.Unavailable, "read the token for the provisioner: %w", err)
	}
	var content io.Reader
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return nil, err
		}
		content = bytes.NewReader(text)
	}
	request, err := http.NewRequestWithContext(ctx, method, strings.TrimSuffix(c.URL, "/")+path, content)
	if err != nil {
		return nil, fault.New(fault.Invalid, "ask the provisioner: %w", err)
	}
	request.Header.Set("Authorization", "Bearer "+token)
	if trace := obs.Traceparent(ctx); trace != "" {
		request.Header.Set("Traceparent", trace)
	}
	if body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	return request, nil
}

func decode(text []byte, into any) error {
	if err := json.Unmarshal(text, into); err != nil {
		return fault.New(fault.Unavailable, "read the provisioner's answer: %w", err)
	}
	return nil
}

// readProblem reads what is wrong. What is not a problem comes from something between, and may pass.
func readProblem(response *http.Response, text []byte) Problem {
	var p Problem
	if !strings.HasPrefix(response.Header.Get("Content-Type"), ProblemType) || json.Unmarshal(text, &p) != nil {
		return Problem{Type: typePrefix + string(fault.Unavailable), Detail: "the provisioner answered " + response.Status}
	}
	return p
}
