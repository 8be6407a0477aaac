package provisioner

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	provisionerv1 "github.com/waybill-dev/waybill/api/provisioner/v1"
	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/listener"
	"github.com/waybill-dev/waybill/internal/obs"
)

// Config configures a server. Every field must be set, unless its comment makes it optional.
type Config struct {
	Backend Backend
	Name    string // name of the back end, in metrics
	// Access returns nil for a token that may use the provisioner, else fault.Unauthorized or fault.Forbidden.
	Access     func(ctx context.Context, token string) error
	Keys       build.BuilderKeys // the first one makes the workers' tokens
	Concurrent int               // workers at a time
	PerProject int               // bounds the workers of one project
	StartLimit time.Duration     // how long the back end may take to start one; 0: 10 min
	Log        *slog.Logger
	Metrics    *obs.Provisioner // may be nil
}

// Bounds of callers' requests.
const (
	mostConnections = 512      // callers without a token keep each of these for headerTimeout
	mostHeader      = 16 << 10 // bytes
	headerTimeout   = 5 * time.Second
	bodyTimeout     = time.Minute
	answerTimeout   = 11 * time.Minute // a snapshot may have to be copied
	idleTimeout     = time.Minute
	drainTimeout    = 10 * time.Second

	defaultPage = 100
	largestPage = 1000
	longestID   = 250
	// busyRetry is the delay before a waiting worker is worth one more request.
	busyRetry = 5 * time.Second
	// soonRetry takes its place while a worker ends that was asked to within endsWithin. One whose results are still to be
	// taken may take much longer.
	soonRetry  = time.Second
	endsWithin = 10 * time.Second
)

// Server answers requests for workers.
type Server struct {
	Config
	handler http.Handler
	starts  *starts
}

// New makes a server.
func New(c Config) *Server {
	s := &Server{Config: c, starts: newStarts()}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /api/worker", s.create)
	mux.HandleFunc("GET /api/worker", s.list)
	mux.HandleFunc("DELETE /api/worker/{workerId}", s.delete)
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		writeError(w, fault.New(fault.NotFound, "%s %.100q not found", r.Method, r.URL.Path))
	})
	s.handler = s.measure(s.guard(mux))
	return s
}

// ServeHTTP answers one request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.handler.ServeHTTP(w, r) }

// Serve answers requests until ctx ends; then requests have a few seconds.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	return listener.Serve(ctx, l, listener.Config{Name: "the provisioner", Handler: s, Log: s.Log, Connections: mostConnections,
		Header: mostHeader, HeaderTime: headerTimeout, BodyTime: bodyTimeout, AnswerTime: answerTimeout, IdleTime: idleTimeout,
		Drain: drainTimeout})
}

// guard lets a request pass whose token has access.
func (s *Server) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
		if !strings.EqualFold(scheme, "Bearer") || strings.TrimSpace(token) == "" {
			listener.GiveUp(w)
			writeError(w, fault.New(fault.Unauthorized, "a token with the scope worker is needed"))
			return
		}
		if err := s.Access(r.Context(), strings.TrimSpace(token)); err != nil {
			listener.GiveUp(w)
			writeError(w, err)
			return
		}
		w.Header().Set("Cache-Control", "no-store")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		next.ServeHTTP(w, r)
	})
}

// create starts the worker of a build.
func (s *Server) create(w http.ResponseWriter, r *http.Request) {
	leave, err := s.starts.enter() // before the body, which may be slow
	if err != nil {
		listener.GiveUp(w)
		writeError(w, err)
		return
	}
	defer leave()
	request, err := readCreate(w, r)
	if err != nil {
		writeError(w, err)
		return
	}
	pause := busyRetry
	begun, waiting, err := s.starts.take(r.Context(), request, s.look, func(workers []provisionerv1.Worker) *provisionerv1.Waiting {
		pause = retryAfter(workers, time.Now())
		return s.full(request, workers)
	})
	if waiting != nil {
		writeWaiting(w, *waiting, pause)
		return
	}
	if err != nil {
		writeError(w, err)
		return
	}
	defer s.starts.end(begun)
	worker, created, err := s.start(r.Context(), request, r.Header.Get("Traceparent"))
	if err != nil {
		writeError(w, err)
		return
	}
	status := http.StatusOK
	if created {
		status = http.StatusCreated
	}
	writeJSON(w, status, worker)
}

// start has the back end start a worker, which may take its time. Whether it has done so nevertheless, the next request finds out.
func (s *Server) start(ctx context.Context, request provisionerv1.CreateWorker,
	trace string) (worker provisionerv1.Worker, created bool, err error) {
	digest, err := request.Digest()
	if err != nil {
		return worker, false, err
	}
	launch := Launch{CreateWorker: request, Digest: digest, Keys: s.Keys, Key: s.Keys[0].Number,
		Token: s.Keys[0].WorkerToken(request.Instance, request.BuildID, request.Nonce)}
	if obs.Linked(trace).IsValid() {
		launch.Trace = trace
	}
	limit := cmp.Or(s.StartLimit, startLimit)
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("a worker did not start within %s", limit))
	defer cancel()
	worker, created, err = s.Backend.Create(ctx, launch)
	if err != nil && ctx.Err() != nil {
		err = fault.New(fault.Unavailable, "the worker of build %d did not start within %s: %w", request.BuildID, limit, err)
	}
	return worker, created, err
}

// readCreate reads the body of a request to its end.
func readCreate(w http.ResponseWriter, r *http.Request) (request provisionerv1.CreateWorker, err error) {
	if err := checkQuery(r.URL.Query(), nil); err != nil {
		return request, err
	}
	text, err := io.ReadAll(http.MaxBytesReader(w, r.Body, provisionerv1.MostBody))
	if _, large := errors.AsType[*http.MaxBytesError](err); large {
		return request, fault.New(fault.TooLarge, "want a body of at most %d bytes", provisionerv1.MostBody)
	}
	if err != nil {
		return request, fault.New(fault.Invalid, "read the body: %w", err)
	}
	reader := json.NewDecoder(strings.NewReader(string(text)))
	reader.DisallowUnknownFields()
	if err := reader.Decode(&request); err != nil || reader.More() {
		return request, fault.New(fault.Invalid, "want one object of JSON that this version of Waybill knows") // err may quote a password
	}
	return request, request.Check()
}

// full reports that a worker has to wait; nil if it need not, or if the build has one.
func (s *Server) full(request provisionerv1.CreateWorker, workers []provisionerv1.Worker) *provisionerv1.Waiting {
	running, ofProject := 0, 0
	for _, w := range workers {
		switch {
		case w.BuildID == request.BuildID && w.Instance == request.Instance:
			return nil
		case w.Status == string(build.WorkerEnded):
			continue
		}
		running++
		if w.Project == request.Project {
			ofProject++
		}
	}
	switch {
	case running >= s.Concurrent:
		return &provisionerv1.Waiting{Running: running, Limit: s.Concurrent}
	case ofProject >= s.PerProject:
		return &provisionerv1.Waiting{Running: ofProject, Limit: s.PerProject, Project: request.Project}
	}
	return nil
}

// retryAfter returns when there may be room beside the workers.
func retryAfter(workers []provisionerv1.Worker, now time.Time) time.Duration {
	for _, w := range workers {
		if w.Status != string(build.WorkerEnded) && now.Sub(w.DeletedAt) < endsWithin {
			return soonRetry
		}
	}
	return busyRetry
}

// look lists the workers and reports how many there are.
func (s *Server) look(ctx context.Context) ([]provisionerv1.Worker, error) {
	workers, err := s.Backend.List(ctx)
	count := map[string]int{}
	for _, w := range workers {
		count[w.Status]++
	}
	if err == nil {
		s.Metrics.Saw(count)
	}
	return workers, err
}

// list answers one page of the workers that match.
func (s *Server) list(w http.ResponseWriter, r *http.Request) {
	matches, from, limit, err := readFilter(r.URL.Query())
	if err != nil {
		writeError(w, err)
		return
	}
	workers, err := s.look(r.Context())
	if err != nil {
		s.Log.Warn("workers cannot be listed", obs.Error(err))
	}
	workers = slices.DeleteFunc(workers, func(w provisionerv1.Worker) bool { return !matches(w) || place(w).compare(from) <= 0 })
	slices.SortFunc(workers, func(a, b provisionerv1.Worker) int { return place(a).compare(place(b)) })
	answer := provisionerv1.WorkerList{Workers: workers[:min(limit, len(workers))], Complete: err == nil, Now: time.Now().UTC()}
	if len(workers) > limit {
		answer.Cursor = place(workers[limit-1]).String()
	}
	if answer.Workers == nil {
		answer.Workers = []provisionerv1.Worker{}
	}
	writeJSON(w, http.StatusOK, answer)
}

// position is a worker's place in the list.
type position struct {
	buildID  int64
	workerID string
}

func place(w provisionerv1.Worker) position { return position{w.BuildID, w.WorkerID} }

func (p position) compare(other position) int {
	return cmp.Or(cmp.Compare(p.buildID, other.buildID), cmp.Compare(p.workerID, other.workerID))
}

// String returns the cursor of the page behind the position.
func (p position) String() string {
	return base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, "%d %s", p.buildID, p.workerID))
}

func parsePosition(cursor string) (position, error) {
	text, err := base64.RawURLEncoding.DecodeString(cursor)
	number, id, ok := strings.Cut(string(text), " ")
	buildID, numberErr := strconv.ParseInt(number, 10, 64)
	if err != nil || numberErr != nil || !ok {
		return position{}, fault.New(fault.Invalid, "cursor: want one that an earlier answer had")
	}
	return position{buildID, id}, nil
}

// readFilter reads the parameters of a list.
func readFilter(query url.Values) (matches func(provisionerv1.Worker) bool, from position, limit int, err error) {
	if err := checkQuery(query, []string{"buildId", "instance", "limit", "cursor"}, "status"); err != nil {
		return nil, from, 0, err
	}
	limit, err = number(query, "limit", defaultPage)
	if err != nil || limit < 1 || limit > largestPage {
		return nil, from, 0, fault.New(fault.Invalid, "limit: want a number from 1 to %d", largestPage)
	}
	buildID, err := number(query, "buildId", 0)
	if err != nil {
		return nil, from, 0, fault.New(fault.Invalid, "buildId: want a number")
	}
	if cursor := query.Get("cursor"); cursor != "" {
		if from, err = parsePosition(cursor); err != nil {
			return nil, from, 0, err
		}
	}
	statuses, instance := query["status"], query.Get("instance")
	if err := checkStatuses(statuses); err != nil {
		return nil, from, 0, err
	}
	return func(w provisionerv1.Worker) bool {
		return (len(statuses) == 0 || slices.Contains(statuses, w.Status)) &&
			(buildID == 0 || w.BuildID == int64(buildID)) && (instance == "" || w.Instance == instance)
	}, from, limit, nil
}

// checkQuery refuses a parameter that a request does not have, and one that is repeated and may not be: of two values
// one would count, and the caller would not know which.
func checkQuery(query url.Values, once []string, repeatable ...string) error {
	for _, name := range slices.Sorted(maps.Keys(query)) {
		switch n := len(query[name]); {
		case slices.Contains(repeatable, name):
		case !slices.Contains(once, name):
			want := "none"
			if known := slices.Concat(repeatable, once); len(known) > 0 {
				want = strings.Join(known, ", ")
			}
			return fault.New(fault.Invalid, "parameter %.100q not found: want %s", name, want)
		case n > 1:
			return fault.New(fault.Invalid, "parameter %q is given %d times, and may be given once", name, n)
		}
	}
	return nil
}

// checkStatuses refuses a status that no worker has.
func checkStatuses(statuses []string) error {
	known := []build.WorkerStatus{build.WorkerPending, build.WorkerRunning, build.WorkerEnded, build.WorkerUnknown}
	for _, status := range statuses {
		if !slices.Contains(known, build.WorkerStatus(status)) {
			return fault.New(fault.Invalid, "no worker has the status %.100q: want Pending, Running, Ended or Unknown", status)
		}
	}
	return nil
}

// number reads a parameter that has a default.
func number(query url.Values, key string, otherwise int) (int, error) {
	if text := query.Get(key); text != "" {
		return strconv.Atoi(text)
	}
	return otherwise, nil
}

// delete ends and removes a worker.
func (s *Server) delete(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	if err := checkQuery(query, []string{"force"}); err != nil {
		writeError(w, err)
		return
	}
	id, force := r.PathValue("workerId"), query.Get("force")
	if len(id) > longestID || force != "" && force != "true" && force != "false" {
		writeError(w, fault.New(fault.Invalid, "want a worker's id, and force=true or nothing"))
		return
	}
	if err := s.Backend.Delete(r.Context(), id, force == "true"); err != nil {
		writeError(w, err)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}
