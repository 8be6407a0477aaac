package promotion

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"sync"
	"testing"
)

// Delivery is a request that a Git host has sent to Waybill, with the status of the answer.
type Delivery struct {
	Header http.Header
	Body   []byte
	Status int
}

// Recorder is a proxy of Waybill that records the deliveries of webhooks.
type Recorder struct {
	URL string // address for the Git host

	target     *url.URL
	mutex      sync.Mutex
	deliveries []Delivery
}

// Record starts a proxy of a hook's address for the test.
func Record(t testing.TB, address string) *Recorder {
	t.Helper()
	target, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	r := &Recorder{target: target}
	server := httptest.NewServer(r)
	t.Cleanup(server.Close)
	r.URL = server.URL + target.Path
	return r
}

// ServeHTTP passes a delivery on.
func (r *Recorder) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	body, err := io.ReadAll(request.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	request.Body = io.NopCloser(bytes.NewReader(body))
	delivery := Delivery{Header: request.Header.Clone(), Body: body}
	proxy := &httputil.ReverseProxy{
		Rewrite: func(p *httputil.ProxyRequest) {
			p.Out.URL.Scheme, p.Out.URL.Host, p.Out.Host = r.target.Scheme, r.target.Host, r.target.Host
		},
		ModifyResponse: func(answer *http.Response) error {
			delivery.Status = answer.StatusCode
			return nil
		},
	}
	proxy.ServeHTTP(w, request)
	r.mutex.Lock()
	defer r.mutex.Unlock()
	r.deliveries = append(r.deliveries, delivery)
}

// Deliveries returns the deliveries of an event, such as pull_request, that were answered with a status.
func (r *Recorder) Deliveries(event string, status int) []Delivery {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	return slices.DeleteFunc(slices.Clone(r.deliveries), func(d Delivery) bool {
		return d.Header.Get("X-Gitea-Event") != event || d.Status != status
	})
}

// Repeat sends a delivery once more, byte for byte, and returns the status of the answer.
func (r *Recorder) Repeat(t testing.TB, d Delivery) int {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, r.target.String(), bytes.NewReader(d.Body))
	if err != nil {
		t.Fatal(err)
	}
	request.Header = d.Header.Clone()
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	_ = answer.Body.Close() // nothing is read
	return answer.StatusCode
}
