// Package awstest replaces Step Functions and SQS: one server that speaks their JSON protocols and fails as tests
// require.
package awstest

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/waybill-dev/waybill/internal/aws"
)

// Where the server is.
const (
	Region  = "eu-north-1"
	account = "123456789012"
)

// Main gives a package's tests credentials, runs them and returns their exit status.
func Main(m *testing.M) int {
	for name, value := range map[string]string{"AWS_ACCESS_KEY_ID": "waybill", "AWS_SECRET_ACCESS_KEY": "waybill-secret",
		"AWS_EC2_METADATA_DISABLED": "true"} {
		if err := os.Setenv(name, value); err != nil {
			panic(err)
		}
	}
	return m.Run()
}

// Fault is a way in which a call fails.
type Fault struct {
	Status int    // status of the answer; 0: the connection breaks without one
	Code   string // the service's word for it
	Done   bool   // the call has its effect all the same
}

// Call is a request that was made.
type Call struct {
	Name   string // such as StartExecution
	Region string // region in its signature
	Key    string // id of the credentials
}

// Server is Step Functions and SQS. Safe for concurrent use.
type Server struct {
	URL string

	mu         sync.Mutex
	calls      []Call
	fault      func(call string, n int) *Fault
	machines   map[string]bool
	executions map[string]*Execution
	queues     map[string]*queue
	changed    chan struct{} // closed at every change, then another
}

// Start runs a server until the test ends.
func Start(t testing.TB) *Server {
	t.Helper()
	s := &Server{machines: map[string]bool{}, executions: map[string]*Execution{}, queues: map[string]*queue{}, changed: make(chan struct{})}
	server := httptest.NewServer(http.HandlerFunc(s.serve))
	s.URL = server.URL
	t.Cleanup(server.Close)
	t.Cleanup(server.CloseClientConnections)
	return s
}

// Account returns the settings of a client of the server.
func (s *Server) Account(t testing.TB) *aws.Account {
	t.Helper()
	a, err := aws.Open(t.Context(), aws.Config{Region: Region, Endpoint: s.URL})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// Fail lets calls go wrong: fault is called for each one, which is the n-th of its name from 1; nil: it goes well.
func (s *Server) Fail(fault func(call string, n int) *Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fault = fault
}

// Calls lists the calls of a name that were made; "": all.
func (s *Server) Calls(name string) []Call {
	s.mu.Lock()
	defer s.mu.Unlock()
	var some []Call
	for _, c := range s.calls {
		if name == "" || c.Name == name {
			some = append(some, c)
		}
	}
	return some
}

// notify wakes who waits for a change. The caller holds mu.
func (s *Server) notify() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// refusal is an answer that is an error.
type refusal struct {
	code string
	old  string // SQS' older word for it
}

// scope is the credentials and the region in a signature.
var scope = regexp.MustCompile(`Credential=([^/]+)/\d+/([^/]+)/`)

func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	_, name, _ := strings.Cut(r.Header.Get("X-Amz-Target"), ".")
	call := Call{Name: name}
	if found := scope.FindStringSubmatch(r.Header.Get("Authorization")); found != nil {
		call.Key, call.Region = found[1], found[2]
	}
	fault := s.note(call)
	if fault != nil && !fault.Done {
		fail(w, *fault)
		return
	}
	answer, refused := s.do(r, name)
	switch {
	case fault != nil:
		fail(w, *fault)
	case refused != nil:
		refuse(w, *refused)
	default:
		w.Header().Set("Content-Type", "application/x-amz-json-1.0")
		_ = json.NewEncoder(w).Encode(answer) // a client that went away misses it
	}
}

// note remembers a call and finds out whether it shall go wrong.
func (s *Server) note(call Call) *Fault {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls = append(s.calls, call)
	if s.fault == nil {
		return nil
	}
	n := 0
	for _, c := range s.calls {
		if c.Name == call.Name {
			n++
		}
	}
	return s.fault(call.Name, n)
}

func fail(w http.ResponseWriter, f Fault) {
	if f.Status == 0 {
		panic(http.ErrAbortHandler) // net/http breaks the connection
	}
	w.Header().Set("Content-Type", "application/x-amz-json-1.0")
	w.WriteHeader(f.Status)
	_ = json.NewEncoder(w).Encode(map[string]string{"__type": "com.amazonaws#" + f.Code, "message": "as the test asked"})
}

func refuse(w http.ResponseWriter, r refusal) {
	if r.old != "" {
		w.Header().Set("X-Amzn-Query-Error", r.old+";Sender")
	}
	fail(w, Fault{Status: http.StatusBadRequest, Code: r.code})
}

func (s *Server) do(r *http.Request, name string) (any, *refusal) {
	calls := map[string]func(*http.Request) (any, *refusal){
		"StartExecution": s.startExecution, "DescribeExecution": s.describeExecution, "StopExecution": s.stopExecution,
		"DescribeStateMachine": s.describeMachine, "GetQueueAttributes": s.queueAttributes,
		"SendMessage": s.sendMessage, "ReceiveMessage": s.receiveMessage, "DeleteMessageBatch": s.deleteMessages,
	}
	do, known := calls[name]
	if !known {
		return nil, &refusal{code: "UnknownOperationException"}
	}
	return do(r)
}

// read decodes a request, and answers one that is not valid JSON.
func read[T any](r *http.Request) (in T, wrong *refusal) {
	if json.NewDecoder(r.Body).Decode(&in) != nil {
		return in, &refusal{code: "SerializationException"}
	}
	return in, nil
}

// seconds returns a moment in AWS' JSON.
func seconds(at time.Time) float64 { return float64(at.UnixMilli()) / 1000 }
