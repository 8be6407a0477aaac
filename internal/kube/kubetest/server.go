package kubetest

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// Server serves an API over HTTP/2 and TLS on connections in memory, so that clients work in testing/synctest too. It
// finds kinds, reads, lists, watches, creates, changes and deletes. It is a bad server when a test requires it: down, frozen,
// slow, or strict.
type Server struct {
	*API
	http     *httptest.Server
	listener *pipes

	mutex   sync.Mutex
	token   string // "": every one is good
	status  map[string]int
	delay   time.Duration
	down    bool
	running chan struct{} // closed: it is not frozen
	open    map[net.Conn]struct{}
	dialed  int
	heard   []string
	watches int
	mute    string
}

// NewServer returns a server of an API, and closes it at the test's end.
func NewServer(t testing.TB, api *API) *Server {
	s := OpenServer(api)
	t.Cleanup(s.Close)
	return s
}

// OpenServer returns a server as NewServer does. The caller closes it.
func OpenServer(api *API) *Server {
	s := newServer(api)
	_ = s.http.Listener.Close() // a TCP listener that is not used
	s.http.Listener = s.listener
	s.http.StartTLS()
	return s
}

// ListenServer returns a server that listens on TCP, at Address, for other processes. The caller closes it.
func ListenServer(api *API) *Server {
	s := newServer(api)
	s.http.StartTLS()
	return s
}

// Address returns the host and port of a server that listens on TCP.
func (s *Server) Address() string { return s.http.Listener.Addr().String() }

func newServer(api *API) *Server {
	s := &Server{
		API:      api,
		listener: &pipes{incoming: make(chan net.Conn), closed: make(chan struct{})},
		status:   map[string]int{},
		running:  make(chan struct{}),
		open:     map[net.Conn]struct{}{},
	}
	close(s.running)
	s.http = httptest.NewUnstartedServer(s)
	s.http.EnableHTTP2 = true
	s.http.Config.ErrorLog = log.New(io.Discard, "", 0)
	return s
}

// Close ends the server and all connections.
func (s *Server) Close() {
	s.Thaw()
	s.API.Close()
	s.cut()
	s.http.CloseClientConnections()
	s.http.Close()
}

// Kubeconfig returns a kubeconfig for the server under a host name, with a token.
func (s *Server) Kubeconfig(host, token string) []byte {
	authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.http.Certificate().Raw})
	return fmt.Appendf(nil, `apiVersion: v1
kind: Config
current-context: it
contexts: [{name: it, context: {cluster: it, user: it}}]
clusters: [{name: it, cluster: {server: "https://%s", tls-server-name: example.com, certificate-authority-data: %s}}]
users: [{name: it, user: {token: %q}}]
`, host, base64.StdEncoding.EncodeToString(authority), token)
}

// Dial connects to the server.
func (s *Server) Dial(ctx context.Context) (net.Conn, error) {
	s.mutex.Lock()
	down := s.down
	s.dialed++
	s.mutex.Unlock()
	if down {
		return nil, errors.New("connection refused")
	}
	here, there := net.Pipe()
	select {
	case s.listener.incoming <- there:
		return s.opened(here)
	case <-s.listener.closed:
		return nil, errors.New("connection refused")
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// opened returns an open connection, unless the server was stopped since.
func (s *Server) opened(here net.Conn) (net.Conn, error) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	one := &counted{here, s}
	if s.down {
		_ = here.Close()
		return nil, errors.New("connection refused")
	}
	s.open[one] = struct{}{}
	return one, nil
}

// counted is an open connection of a client.
type counted struct {
	net.Conn
	of *Server
}

func (c *counted) Close() error {
	c.of.mutex.Lock()
	delete(c.of.open, c)
	c.of.mutex.Unlock()
	return c.Conn.Close()
}

// Dialed returns the number of attempts to connect.
func (s *Server) Dialed() int {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.dialed
}

// Open returns the number of open connections.
func (s *Server) Open() int {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return len(s.open)
}

// Watches returns the number of open watches.
func (s *Server) Watches() int {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.watches
}

func (s *Server) countWatches(n int) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.watches += n
}

// Heard returns the methods and paths of the requests that were received.
func (s *Server) Heard() []string {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return append([]string(nil), s.heard...)
}

// Require has the server refuse other tokens than this one with 401.
func (s *Server) Require(token string) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.token = token
}

// Refuse has requests for a path end with a status; 0: they are answered again. The path may be a prefix that ends with
// a star.
func (s *Server) Refuse(path string, status int) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.status[path] = status
}

// Mute has watches of a path begin and receive nothing; "": of none.
func (s *Server) Mute(path string) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.mute = path
}

func (s *Server) muted(path string) bool {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.mute == path
}

// Slow has each request wait.
func (s *Server) Slow(delay time.Duration) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.delay = delay
}

// Stop ends all connections and refuses new ones until Start.
func (s *Server) Stop() {
	s.mutex.Lock()
	s.down = true
	s.mutex.Unlock()
	s.cut()
}

// Start accepts connections again.
func (s *Server) Start() {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.down = false
}

func (s *Server) cut() {
	s.mutex.Lock()
	open := slices.Collect(maps.Keys(s.open))
	s.mutex.Unlock()
	for _, one := range open {
		_ = one.Close()
	}
}

// Freeze has the server answer nothing until Thaw, while connections stay open.
func (s *Server) Freeze() {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.running = make(chan struct{})
}

// Thaw ends Freeze.
func (s *Server) Thaw() {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	select {
	case <-s.running:
	default:
		close(s.running)
	}
}

// wait waits while the server is frozen.
func (s *Server) wait(ctx context.Context) {
	s.mutex.Lock()
	running := s.running
	s.mutex.Unlock()
	select {
	case <-running:
	case <-ctx.Done():
	}
}

// admit returns the status for a request; 0: it is answered.
func (s *Server) admit(r *http.Request) (int, time.Duration) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.heard = append(s.heard, r.Method+" "+r.URL.Path)
	if s.token != "" && r.Header.Get("Authorization") != "Bearer "+s.token {
		return http.StatusUnauthorized, s.delay
	}
	for path, status := range s.status {
		if start, many := strings.CutSuffix(path, "*"); path == r.URL.Path || many && strings.HasPrefix(r.URL.Path, start) {
			return status, s.delay
		}
	}
	return 0, s.delay
}

func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.wait(r.Context())
	status, delay := s.admit(r)
	if delay > 0 {
		select {
		case <-time.After(delay):
		case <-r.Context().Done():
		}
	}
	if status != 0 {
		answer(w, status, &metav1.Status{
			TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"},
			Status:   metav1.StatusFailure,
			Reason:   reasons[status],
			Code:     int32(status),
			Message:  fmt.Sprintf("%s is refused", r.URL.Path),
		})
		return
	}
	if document := s.document(r.URL.Path); document != nil {
		answer(w, http.StatusOK, document)
		return
	}
	s.serveObjects(w, r)
}

var reasons = map[int]metav1.StatusReason{
	http.StatusUnauthorized: metav1.StatusReasonUnauthorized,
	http.StatusForbidden:    metav1.StatusReasonForbidden,
	http.StatusNotFound:     metav1.StatusReasonNotFound,
}

func answer(w http.ResponseWriter, status int, document any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(document) // the client may be gone
}

// serveObjects reads, lists or watches objects.
func (s *Server) serveObjects(w http.ResponseWriter, r *http.Request) {
	path, isStatus := strings.CutSuffix(r.URL.Path, "/status")
	in, namespace, name, ok := parsePath(path)
	if !ok || !s.serves(in) || isStatus && name == "" {
		http.NotFound(w, r)
		return
	}
	objects := s.Resource(in).Namespace(namespace)
	if r.Method == http.MethodDelete && name != "" && !isStatus {
		serveDeletion(w, r, objects, name)
		return
	}
	if r.Method != http.MethodGet {
		serveChange(w, r, objects, changing{name, isStatus})
		return
	}
	if name != "" {
		object, err := objects.Get(r.Context(), name, metav1.GetOptions{})
		if err != nil {
			fail(w, err)
			return
		}
		answer(w, http.StatusOK, object)
		return
	}
	var o metav1.ListOptions
	if err := metav1.Convert_url_Values_To_v1_ListOptions(ptr(r.URL.Query()), &o, nil); err != nil {
		fail(w, apierrors.NewBadRequest(err.Error()))
		return
	}
	if o.Watch {
		s.serveWatch(w, r, func(ctx context.Context) (watch.Interface, error) { return objects.Watch(ctx, o) })
		return
	}
	list, err := objects.List(r.Context(), o)
	if err != nil {
		fail(w, err)
		return
	}
	answer(w, http.StatusOK, list)
}

func ptr[T any](v T) *T { return &v }

// serveWatch sends the events of a watch.
func (s *Server) serveWatch(w http.ResponseWriter, r *http.Request, open func(context.Context) (watch.Interface, error)) {
	events, err := open(r.Context())
	if err != nil {
		fail(w, err)
		return
	}
	defer events.Stop()
	s.countWatches(1)
	defer s.countWatches(-1)
	flusher := http.NewResponseController(w)
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusOK)
	if flusher.Flush() != nil {
		return
	}
	if s.muted(r.URL.Path) {
		<-r.Context().Done()
		return
	}
	for event := range events.ResultChan() {
		s.wait(r.Context())
		text, err := json.Marshal(event.Object)
		if err != nil {
			return
		}
		if _, err := fmt.Fprintf(w, "{\"type\":%q,\"object\":%s}\n", event.Type, text); err != nil || flusher.Flush() != nil {
			return
		}
	}
}

// fail answers with an error.
func fail(w http.ResponseWriter, err error) {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		status = apierrors.NewInternalError(err)
	}
	body := status.Status()
	body.Kind, body.APIVersion = "Status", "v1"
	answer(w, int(body.Code), body)
}

// pipes is a listener for connections in memory.
type pipes struct {
	incoming chan net.Conn
	once     sync.Once
	closed   chan struct{}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case one := <-p.incoming:
		return one, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	p.once.Do(func() { close(p.closed) })
	return nil
}

func (p *pipes) Addr() net.Addr { return pipeAddress{} }

type pipeAddress struct{}

func (pipeAddress) Network() string { return "pipe" }
func (pipeAddress) String() string  { return "pipe" }
