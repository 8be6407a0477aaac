package broker

import (
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/listener"
	"github.com/waybill-dev/waybill/internal/obs"
	"github.com/waybill-dev/waybill/internal/osb"
)

// Bounds of requests.
const (
	maxBody = 1 << 20

	strangersBody = 4 << 10 // bytes that are read of the body of an unknown user

	bodyTime    = 30 * time.Second
	retryAfter  = 5 * time.Second // suggested while the log is away
	connections = 200
)

// codeUnavailable is the code of a 503, which platforms repeat.
const codeUnavailable = "Unavailable"

// Headers of the standard.
const requestIdentity = "X-Broker-API-Request-Identity"

// identityOf returns the request's identity for the log.
func identityOf(r *http.Request) string {
	const most = 200 // bytes; a platform may send any text
	identity := r.Header.Get(requestIdentity)
	return strings.ToValidUTF8(identity[:min(len(identity), most)], "")
}

// Serve answers requests on a listener until ctx ends.
func (b *Broker) Serve(ctx context.Context, l net.Listener) error {
	return listener.Serve(ctx, l, listener.Config{Name: "the service broker", Handler: b, Log: b.Log, Connections: connections,
		Header: 64 << 10, HeaderTime: 10 * time.Second, IdleTime: 2 * time.Minute, BodyTime: bodyTime, AnswerTime: 2 * bodyTime,
		Drain: 10 * time.Second})
}

// asker is a request with its user and its whole body.
type asker struct {
	*http.Request
	user       string
	namespaces []string     // namespaces that the user may have flows in; nil: all
	offered    *osb.Catalog // nil on a route that needs none, while there is none
	body       []byte
}

// osb returns the request as package osb reads it.
func (a asker) osb() osb.Request {
	return osb.Request{Header: a.Header, Instance: a.PathValue("instance"), Binding: a.PathValue("binding"), Query: a.URL.RawQuery, Body: a.body,
		Scope: a.scope()}
}

// scope returns the namespaces that the request's flows may be in.
func (a asker) scope() osb.Scope {
	return osb.Scope{Mount: a.PathValue("namespace"), Allowed: a.namespaces}
}

// register returns the ten routes, with the catalog of the file and with those of namespaces.
func (b *Broker) register() *http.ServeMux {
	const instance, binding = "/v2/service_instances/{instance}", "/v2/service_instances/{instance}/service_bindings/{binding}"
	mux := http.NewServeMux()
	for _, one := range []struct {
		method, path string
		serve        func(asker) answer
	}{
		{"GET", "/v2/catalog", b.withCatalog(b.catalog)},
		{"PUT", instance, b.withCatalog(b.provision)},
		{"GET", instance, b.fetch},
		{"PATCH", instance, b.withCatalog(b.update)},
		{"DELETE", instance, b.perhapsCatalog(b.deprovision)},
		{"GET", instance + "/last_operation", b.poll},
		{"PUT", binding, b.withCatalog(b.bind)},
		{"GET", binding, b.perhapsCatalog(b.fetchBinding)},
		{"DELETE", binding, b.unbind},
		{"GET", binding + "/last_operation", b.pollBinding},
	} {
		serve := route(func(w http.ResponseWriter, r *http.Request) { b.handle(w, r, one.serve) })
		mux.Handle(one.method+" "+one.path, serve)
		mux.Handle(one.method+" /ns/{namespace}"+one.path, serve)
	}
	return mux
}

// route is a handler of the API, unlike those of http.ServeMux for an unknown address or method.
type route func(http.ResponseWriter, *http.Request)

func (f route) ServeHTTP(w http.ResponseWriter, r *http.Request) { f(w, r) }

// ServeHTTP answers a request.
func (b *Broker) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if identity := r.Header.Get(requestIdentity); identity != "" {
		w.Header().Set(requestIdentity, identity)
	}
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Cache-Control", "no-store")
	if handler, _ := b.routes.Handler(r); isRoute(handler) {
		b.routes.ServeHTTP(w, r)
		return
	}
	b.handle(w, r, func(a asker) answer {
		handler, _ := b.routes.Handler(a.Request)
		return unknown(handler, a.Request)
	})
}

func isRoute(h http.Handler) bool {
	_, ok := h.(route)
	return ok
}

// unknown answers a request that no route is for.
func unknown(by http.Handler, r *http.Request) answer {
	refused := recorder{header: http.Header{}, status: http.StatusOK}
	by.ServeHTTP(&refused, r)
	if refused.status != http.StatusMethodNotAllowed {
		return refuse(http.StatusNotFound, osb.CodeNotFound, "the address is not one of the API: %s", r.URL.Path)
	}
	a := refuse(refused.status, "MethodNotAllowed", "%s is not possible here", r.Method)
	a.header = map[string]string{"Allow": refused.header.Get("Allow")}
	return a
}

// recorder keeps the status and the headers of an answer.
type recorder struct {
	header http.Header
	status int
}

func (r *recorder) Header() http.Header         { return r.header }
func (r *recorder) Write(p []byte) (int, error) { return len(p), nil }
func (r *recorder) WriteHeader(status int)      { r.status = status }

// answer holds the answer to a request. err is a fault of this side, or of the database.
type answer struct {
	osb.Decision
	raw    []byte // body, instead of that of the decision
	header map[string]string
	err    error
}

func failed(err *osb.Error) answer { return answer{Decision: osb.Decision{Err: err}} }

// refuse returns the answer with an error.
func refuse(status int, code, format string, args ...any) answer {
	return failed(osb.NewError(status, code, format, args...))
}

// decided returns the answer of a decision, or of the error that kept it from being made.
func decided(d osb.Decision, err error) answer { return answer{Decision: d, err: err} }

// handle answers a request once its body and its user are known.
func (b *Broker) handle(w http.ResponseWriter, r *http.Request, serve func(asker) answer) {
	begun := time.Now()
	a := b.answer(w, r, serve)
	status := b.write(w, r, a)
	b.Metrics.Answered(cmp.Or(r.Pattern, "none"), strconv.Itoa(status), time.Since(begun))
}

// answer checks the bounds, then the user, and then has the request served.
func (b *Broker) answer(w http.ResponseWriter, r *http.Request, serve func(asker) answer) answer {
	tooLarge := refuse(http.StatusRequestEntityTooLarge, "RequestTooLarge", "the body has more than %d bytes", maxBody)
	if r.ContentLength > maxBody {
		return tooLarge
	}
	user, grants, known := b.userOf(r)
	if !known { // a right password always counts: platforms that share a proxy have one address
		if err := b.failures.Take(listener.SourceOf(r)); err != nil {
			a := refuse(http.StatusTooManyRequests, "TooManyRequests", "user or password are not valid, and there are %s", err)
			a.RetryAfter = retryAfter
			return a
		}
	}
	most := int64(maxBody)
	if !known {
		most = strangersBody // no more of it than the order of the checks needs
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, most))
	_, large := errors.AsType[*http.MaxBytesError](err)
	if large && known {
		return tooLarge
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return refuse(http.StatusRequestTimeout, "RequestTimeout", "the body did not arrive in time")
	}
	if err != nil && !large {
		return refuse(http.StatusBadRequest, osb.CodeInvalid, "the body cannot be read: %s", err)
	}
	if !known {
		a := refuse(http.StatusUnauthorized, "Unauthorized", "user or password are not valid")
		a.header = map[string]string{"WWW-Authenticate": `Basic realm="waybill", charset="UTF-8"`}
		return a
	}
	return serve(asker{Request: r, user: user, namespaces: grants.Namespaces, body: body})
}

// withCatalog has requests served with the catalog of their address, and refused while there is none.
func (b *Broker) withCatalog(serve func(asker) answer) func(asker) answer {
	return func(a asker) (refused answer) {
		if a.offered, refused.err = b.offered(a.scope()); refused.err != nil {
			return refused
		}
		return serve(a)
	}
}

// perhapsCatalog has requests served with the catalog of their address if there is one. Service instances outlive it: one that cannot be
// deleted blocks the deletion of its namespace.
func (b *Broker) perhapsCatalog(serve func(asker) answer) func(asker) answer {
	return func(a asker) answer {
		a.offered, _ = b.offered(a.scope())
		return serve(a)
	}
}

// offered returns the catalog of the address: that of the file, or of a namespace. It is empty for a namespace that is not allowed to the
// user, whose requests would else find out the plans of that.
func (b *Broker) offered(scope osb.Scope) (*osb.Catalog, error) {
	if scope.Mount != "" && b.Applications != nil && scope.MountAllowed() {
		return b.Applications.Catalog(scope.Mount)
	}
	if scope.Mount != "" {
		return osb.ApplicationCatalog(osb.PerService, nil, nil)
	}
	if now := b.Catalog.Now(); now != nil {
		return now, nil
	}
	return nil, osb.NewError(http.StatusServiceUnavailable, codeUnavailable, "the catalog has faults; the broker's log has them")
}

// userOf returns the user of a request by basic authentication. An unknown user takes as long as a known one. The configuration is read
// once: a user that is removed while the body arrives must not have the namespaces of a user without a list.
func (b *Broker) userOf(r *http.Request) (name string, grants User, ok bool) {
	name, password, _ := r.BasicAuth()
	digest := sha256.Sum256([]byte(password))
	grants = b.Users()[name]
	for _, one := range append(slices.Clip(grants.Passwords), [sha256.Size]byte{}) { // a copy: requests share the list
		ok = subtle.ConstantTimeCompare(one[:], digest[:]) == 1 || ok
	}
	return name, grants, ok
}

// write writes an answer, and returns its status.
func (b *Broker) write(w http.ResponseWriter, r *http.Request, a answer) int {
	if a.err != nil {
		a = b.fault(r, a.err)
	}
	status, body := a.Status, a.Body
	if a.Err != nil {
		status, body = a.Err.Status, a.Err
	}
	for name, value := range a.header {
		w.Header().Set(name, value)
	}
	if a.RetryAfter > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(a.RetryAfter.Seconds())))
	}
	if status == http.StatusNotModified {
		w.WriteHeader(status)
		return status
	}
	raw := a.raw
	if raw == nil {
		var err error
		if raw, err = osb.Encode(body); err != nil {
			b.Log.Error("an answer cannot be written", obs.Error(err))
			status, raw = http.StatusInternalServerError, []byte(`{"error":"InternalError","description":"the answer cannot be written"}`)
		}
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(raw) // the platform may have left
	return status
}

// fault returns the answer for an error. One of the standard stays; the log that is away is 503, which platforms repeat.
func (b *Broker) fault(r *http.Request, err error) answer {
	code := fault.CodeOf(err)
	refused, ok := errors.AsType[*osb.Error](err)
	switch {
	case ok:
	case code.HTTP() == http.StatusServiceUnavailable, errors.Is(err, context.DeadlineExceeded), r.Context().Err() != nil:
		refused = osb.NewError(http.StatusServiceUnavailable, codeUnavailable, "the log is away: send the request again")
		if r.Context().Err() == nil { // else the platform has left
			b.Log.Warn("a request cannot be answered", obs.KeyDoing, r.Method+" "+r.URL.Path, obs.KeyRef, identityOf(r), obs.Error(err))
		}
	case code == fault.DuplicateKey:
		refused = osb.Concurrency()
	default:
		b.Log.Error("a request failed", obs.KeyDoing, r.Method+" "+r.URL.Path, obs.KeyRef, identityOf(r), obs.Error(err))
		return refuse(http.StatusInternalServerError, "InternalError", "the broker failed; its log says why")
	}
	a := failed(refused)
	if refused.Status == http.StatusServiceUnavailable {
		a.RetryAfter = retryAfter
	}
	return a
}
