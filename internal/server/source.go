package server

import (
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/waybill-dev/waybill/internal/fault"
)

// Limits of requests of other systems, such as signed approvals and hooks.
const (
	sourceRate  = 5 // a second
	sourceBurst = 50
	mostSources = 4096 // remembered at a time
)

// sources limits the requests of each source, so that no source makes the management cluster or the log work without bound.
type sources struct {
	mu  sync.Mutex
	all map[string]*rate.Limiter
}

func newSources() sources { return sources{all: map[string]*rate.Limiter{}} }

// take returns an error when a source has sent too many requests.
func (s *sources) take(source string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	limiter := s.all[source]
	if limiter == nil {
		if len(s.all) >= mostSources {
			s.forget()
		}
		limiter = rate.NewLimiter(sourceRate, sourceBurst)
		s.all[source] = limiter
	}
	if !limiter.Allow() {
		return fault.New(fault.TooMany, "too many requests from %s: want at most %d a second", source, sourceRate)
	}
	return nil
}

// forget drops the sources at rest; if there is none, all.
func (s *sources) forget() {
	for name, limiter := range s.all {
		if limiter.TokensAt(time.Now()) >= sourceBurst {
			delete(s.all, name)
		}
	}
	if len(s.all) >= mostSources {
		clear(s.all)
	}
}

// sourceOf returns the address that a request comes from. Of an IPv6 address it is the network, which one machine has as a whole.
func sourceOf(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		host = r.RemoteAddr
	}
	address, err := netip.ParseAddr(host)
	if err != nil {
		return "an unknown address"
	}
	if address = address.Unmap(); address.Is4() {
		return address.String()
	}
	network, _ := address.WithZone("").Prefix(64) // an IPv6 address has one
	return network.String()
}
