package api

import (
	"bytes"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"io"
	"net/http"
	"strings"
	"time"

	"connectrpc.com/connect"

	"github.com/waybill-dev/waybill/internal/listener"
)

// guard lets a request pass that carries the token, once its body has arrived.
func (s *Server) guard(next http.Handler) http.Handler {
	return withToken(s.Token, limit(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := takeBody(w, r); err != nil {
			code := connect.CodeInvalidArgument
			if tooLarge, ok := errors.AsType[*http.MaxBytesError](err); ok && tooLarge != nil {
				code = connect.CodeResourceExhausted
			}
			refuse(w, r, code, "read the request: "+err.Error())
			return
		}
		next.ServeHTTP(w, r)
	}), mostRequests))
}

// withToken lets a request pass that carries the token.
func withToken(token string, next http.Handler) http.Handler {
	want := sha256.Sum256([]byte(token))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		scheme, given, _ := strings.Cut(r.Header.Get("Authorization"), " ")
		got := sha256.Sum256([]byte(strings.TrimSpace(given)))
		if !strings.EqualFold(scheme, "Bearer") || subtle.ConstantTimeCompare(got[:], want[:]) != 1 {
			w.Header().Set("WWW-Authenticate", "Bearer")
			hurry(w, r)
			refuse(w, r, connect.CodeUnauthenticated, "this worker's token is needed")
			return
		}
		next.ServeHTTP(w, r)
	})
}

// withoutBody answers requests that need no token before a body has come.
func withoutBody(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		hurry(w, r)
		next(w, r)
	}
}

// hurry has a request with a body be answered before that has come, and gives up the connection soon: HTTP/1.1 would
// wait for the body without a limit.
func hurry(w http.ResponseWriter, r *http.Request) {
	if r.ContentLength == 0 || r.ProtoMajor > 1 {
		return
	}
	listener.GiveUp(w)
}

// takeBody reads the whole body, which has a bound in size and time. No method of the service takes more than one message.
func takeBody(w http.ResponseWriter, r *http.Request) error {
	control := http.NewResponseController(w)
	if err := control.SetReadDeadline(time.Now().Add(bodyTimeout)); err != nil {
		return err
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, mostBody))
	if err != nil {
		return err
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	return control.SetReadDeadline(time.Time{}) // the answer has no limit: a reader may follow a stream for days
}

// limit bounds how many requests are answered at a time.
func limit(next http.Handler, most int) http.Handler {
	slots := make(chan struct{}, most)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case slots <- struct{}{}:
			defer func() { <-slots }()
			next.ServeHTTP(w, r)
		default:
			w.Header().Set("Retry-After", "1")
			refuse(w, r, connect.CodeUnavailable, "too many requests at a time")
		}
	})
}

// answered bounds for how long a reader may take nothing of an answer.
func answered(next http.Handler, patience time.Duration) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Content-Type-Options", "nosniff")
		w.Header().Set("Cache-Control", "no-store")
		next.ServeHTTP(&timedWriter{ResponseWriter: w, control: http.NewResponseController(w), patience: patience}, r)
	})
}

// refuse answers in the form of the request: Connect's, gRPC's or that of plain HTTP.
func refuse(w http.ResponseWriter, r *http.Request, code connect.Code, text string) {
	if writer := connect.NewErrorWriter(); writer.IsSupported(r) {
		_ = writer.Write(w, r, connect.NewError(code, errors.New(text))) // a client that has gone needs no answer
		return
	}
	status := http.StatusBadRequest
	switch code {
	case connect.CodeUnauthenticated:
		status = http.StatusUnauthorized
	case connect.CodeUnavailable:
		status = http.StatusServiceUnavailable
	case connect.CodeResourceExhausted:
		status = http.StatusRequestEntityTooLarge
	}
	http.Error(w, text, status)
}

// timedWriter gives writes a deadline. A stream writes more often than that, if only to keep it alive.
type timedWriter struct {
	http.ResponseWriter
	control  *http.ResponseController
	patience time.Duration
	set      time.Time // time at which the deadline was set
}

// Unwrap makes the writer work with [http.ResponseController].
func (w *timedWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *timedWriter) Write(p []byte) (int, error) {
	w.renew()
	return w.ResponseWriter.Write(p)
}

// Flush sends the written bytes.
func (w *timedWriter) Flush() {
	w.renew()
	_ = w.control.Flush() // the next write returns the error
}

// renew sets the deadline, unless that was done lately: it costs about as much as a write. A connection without deadlines has no bound.
func (w *timedWriter) renew() {
	if now := time.Now(); now.Sub(w.set) > w.patience/6 {
		_ = w.control.SetWriteDeadline(now.Add(w.patience))
		w.set = now
	}
}
