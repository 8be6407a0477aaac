package runner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	shimv1 "github.com/waybill-dev/waybill/api/shim/v1"
	"github.com/waybill-dev/waybill/internal/attempt"
	"github.com/waybill-dev/waybill/internal/workspace"
)

// callLimit bounds a request of the shim whose answer is short.
const callLimit = 30 * time.Second

// maxAnswer is the most bytes of a short answer that are read.
const maxAnswer = 16 << 10

// Client talks to the shims of one pod.
type Client struct {
	http  *http.Client
	token string
}

// NewClient returns a client that reaches the shims with dial.
func NewClient(token string, dial func(context.Context) (net.Conn, error)) *Client {
	return &Client{token: token, http: &http.Client{Transport: &http.Transport{
		DialContext:       func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx) },
		DisableKeepAlives: true, // a connection is cheap, and an idle one may be dead
	}}}
}

// refusal is an answer of the shim that asking again does not change.
type refusal struct {
	status int
	text   string
}

func (r *refusal) Error() string { return r.text }

func (c *Client) do(ctx context.Context, method, target string, body io.Reader) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, method, "http://shim"+target, body)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Authorization", "Bearer "+c.token)
	response, err := c.http.Do(request)
	if err != nil {
		return nil, fmt.Errorf("reach the shim: %w", err)
	}
	if response.StatusCode == http.StatusOK || response.StatusCode == http.StatusConflict {
		return response, nil
	}
	text, _ := io.ReadAll(io.LimitReader(response.Body, maxAnswer)) // only to explain
	_ = response.Body.Close()                                       // only read
	why := strings.TrimSpace(string(text))
	if response.StatusCode == http.StatusNotFound {
		return nil, fmt.Errorf("reach the shim: %s answers %s", request.URL.Path, response.Status) // the other shim has the port
	}
	return nil, &refusal{response.StatusCode, why}
}

// call makes a request with a short answer and returns it.
func (c *Client) call(ctx context.Context, method, target string, body io.Reader) (_ []byte, err error) {
	response, err := c.do(ctx, method, target, body)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, response.Body.Close()) }()
	return io.ReadAll(io.LimitReader(response.Body, maxAnswer))
}

// post makes a request without content within callLimit.
func (c *Client) post(ctx context.Context, path string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, callLimit, fmt.Errorf("no answer within %s", callLimit))
	defer cancel()
	_, err := c.call(ctx, http.MethodPost, path, nil)
	return err
}

// Upload sends the part of a snapshot that the init container does not have yet. It returns how many bytes the
// container has for sure. After an error it can be called again.
func (c *Client) Upload(ctx context.Context, snapshot *os.File) (has int64, err error) {
	within, cancel := context.WithTimeoutCause(ctx, callLimit, fmt.Errorf("no answer within %s", callLimit))
	defer cancel()
	if has, err = offsetOf(c.call(within, http.MethodGet, shimv1.PathUpload, nil)); err != nil {
		return 0, err
	}
	info, err := snapshot.Stat()
	if err != nil || has == info.Size() {
		return has, err
	}
	rest := io.NewSectionReader(snapshot, has, info.Size()-has)
	now, err := offsetOf(c.call(ctx, http.MethodPut, shimv1.PathUpload+"?offset="+strconv.FormatInt(has, 10), rest))
	if err == nil && now != info.Size() {
		err = fmt.Errorf("the pod has %d of %d bytes of the workspace", now, info.Size())
	}
	return max(has, now), err
}

func offsetOf(text []byte, err error) (int64, error) {
	var at shimv1.Offset
	if err == nil {
		err = json.Unmarshal(text, &at)
	}
	return at.Offset, err
}

// Unpack has the init container unpack the snapshot, whose tar has this digest, and end.
func (c *Client) Unpack(ctx context.Context, digest string) error {
	_, err := c.call(ctx, http.MethodPost, shimv1.PathUnpack+"?digest="+url.QueryEscape(digest), nil)
	return err
}

// Output returns the spool from a byte on. With follow it ends when the spool does, else at the present end.
func (c *Client) Output(ctx context.Context, offset int64, follow bool) (io.ReadCloser, error) {
	response, err := c.do(ctx, http.MethodGet,
		shimv1.PathOutput+"?offset="+strconv.FormatInt(offset, 10)+"&follow="+strconv.FormatBool(follow), nil)
	if err != nil {
		return nil, err
	}
	return response.Body, nil
}

// Alive reports that the worker lives.
func (c *Client) Alive(ctx context.Context) error { return c.post(ctx, shimv1.PathAlive) }

// Stop has the step's program be ended.
func (c *Client) Stop(ctx context.Context) error { return c.post(ctx, shimv1.PathStop) }

// Release has the container of the results end.
func (c *Client) Release(ctx context.Context) error { return c.post(ctx, shimv1.PathRelease) }

// Files unpacks files of the workspace into dir, which is made: those that match globs, or the parts of caches. It
// returns how many bytes came. After an error the content of dir must not be used.
func (c *Client) Files(ctx context.Context, kind string, names []string, dir string) (received int64, err error) {
	response, err := c.do(ctx, http.MethodGet, shimv1.PathFiles+"?"+url.Values{kind: names}.Encode(), nil)
	if err != nil {
		return 0, err
	}
	content := attempt.CountingReader{ReadCloser: response.Body, N: &received}
	err = workspace.Extract(ctx, content, dir, "")
	if err == nil {
		_, err = io.Copy(io.Discard, content) // an error if the answer was cut after the archive's end
	}
	return received, errors.Join(err, response.Body.Close())
}

// Kinds of files for Files: queries of shimv1.PathFiles.
const (
	filesMatching = "file"
	filesOfPart   = "part"
)
