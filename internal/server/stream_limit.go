package server

import (
	"context"
	"net"
	"net/http"
	"sync"

	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/service"
)

// Bounds of streams at a time: each asks the database again whenever something changes.
const (
	mostStreams       = 1000 // and at most half of the connections, so that requests find one
	mostClientStreams = 100
)

// streams counts the streams that are open. Safe for concurrent use.
type streams struct {
	most int

	mu   sync.Mutex
	open int
	by   map[string]int // by client
}

func newStreams() *streams {
	return &streams{most: min(mostStreams, mostConnections()/2), by: map[string]int{}}
}

// enter registers a stream of a client; the caller calls leave at its end. The error is fault.Unavailable.
func (s *streams) enter(client string) (leave func(), err error) {
	if s == nil {
		return func() {}, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open >= s.most || s.by[client] >= min(mostClientStreams, s.most) {
		return nil, fault.New(fault.Unavailable, "too many live pages and streams are open: %d, %d by this client", s.open, s.by[client]).
			WithHint("close some; pages without script work")
	}
	s.open++
	s.by[client]++
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.open--
		if s.by[client]--; s.by[client] == 0 {
			delete(s.by, client)
		}
	}, nil
}

// streamsKey is the key of a request's streams in its context.
type streamsKey struct{}

// streamsOf returns the streams of the server that serves a request; nil outside of one.
func streamsOf(ctx context.Context) *streams {
	s, _ := ctx.Value(streamsKey{}).(*streams)
	return s
}

// clientOf returns the key under which streams are counted: the stored token, also of a browser's session, the user of the home's token, or
// else the address. Nothing of it is the client's to vary; the user is, but has every right.
func clientOf(r *http.Request) string {
	if identity := service.IdentityOf(r.Context()); identity.Known() {
		return "token " + identity.Token + "\nuser " + identity.Name
	}
	host, _, _ := net.SplitHostPort(r.RemoteAddr) // a connection of a test may have no address
	return host
}
