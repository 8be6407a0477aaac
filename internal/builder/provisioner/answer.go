package provisioner

import (
	"encoding/json"
	"net/http"
	"strconv"
	"time"

	provisionerv1 "github.com/waybill-dev/waybill/api/provisioner/v1"
	"github.com/waybill-dev/waybill/internal/build"
)

// writeJSON answers a request.
func writeJSON(w http.ResponseWriter, status int, value any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(value) // a client that has gone needs no answer
}

// writeError answers a request with a problem.
func writeError(w http.ResponseWriter, err error) {
	p := provisionerv1.ProblemOf(err)
	p.Detail = build.Printable(p.Detail, nil)
	switch p.Status {
	case http.StatusUnauthorized:
		w.Header().Set("WWW-Authenticate", "Bearer")
	case http.StatusServiceUnavailable:
		w.Header().Set("Retry-After", strconv.Itoa(int(busyRetry.Seconds())))
	}
	writeProblem(w, p)
}

// writeWaiting answers that the worker has to wait, which is not an error.
func writeWaiting(w http.ResponseWriter, waiting provisionerv1.Waiting, pause time.Duration) {
	w.Header().Set("Retry-After", strconv.Itoa(int(pause.Seconds())))
	writeProblem(w, provisionerv1.WaitingProblem(waiting))
}

func writeProblem(w http.ResponseWriter, p provisionerv1.Problem) {
	w.Header().Set("Content-Type", provisionerv1.ProblemType)
	w.WriteHeader(p.Status)
	_ = json.NewEncoder(w).Encode(p) // a client that has gone needs no answer
}

// measured remembers the status of an answer.
type measured struct {
	http.ResponseWriter
	status int
}

// WriteHeader begins the answer.
func (m *measured) WriteHeader(status int) {
	m.status = status
	m.ResponseWriter.WriteHeader(status)
}

// Unwrap makes the writer work with [http.ResponseController].
func (m *measured) Unwrap() http.ResponseWriter { return m.ResponseWriter }

// measure counts requests. A panic counts as one that was not answered.
func (s *Server) measure(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		began, m := time.Now(), &measured{ResponseWriter: w, status: http.StatusOK}
		defer func() { s.Metrics.Answered(s.Name, strconv.Itoa(m.status), time.Since(began)) }()
		next.ServeHTTP(m, r)
	})
}
