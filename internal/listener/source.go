package listener

import (
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/waybill-dev/waybill/internal/fault"
)

// Limits of the requests of a source: a second, and at once.
const (
	SourceRate  = 5 // a second
	SourceBurst = 50
	mostSources = 4096 // remembered at a time
)

// Sources limits requests that cost work before their sender is known, or whose sender stays unknown, such as signed approvals, hooks
// and failed logins: those of each source, so that none makes others wait.
type Sources struct {
	mu  sync.Mutex
	all map[string]*rate.Limiter
}

// NewSources returns the limits of requests of one kind.
func NewSources() *Sources { return &Sources{all: map[string]*rate.Limiter{}} }

// Take returns an error with the code fault.TooMany when a source has sent too many requests.
func (s *Sources) Take(source string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	limiter := s.all[source]
	if limiter == nil {
		if len(s.all) >= mostSources {
			s.forget()
		}
		limiter = rate.NewLimiter(SourceRate, SourceBurst)
		s.all[source] = limiter
	}
	if !limiter.Allow() {
		return fault.New(fault.TooMany, "too many requests from %s: want at most %d a second", source, SourceRate)
	}
	return nil
}

// forget drops the sources at rest; if there is none, all.
func (s *Sources) forget() {
	for name, limiter := range s.all {
		if limiter.TokensAt(time.Now()) >= SourceBurst {
			delete(s.all, name)
		}
	}
	if len(s.all) >= mostSources {
		clear(s.all)
	}
}

// SourceOf returns the address that a request comes from. Of an IPv6 address it is the network, which one machine has as a whole.
func SourceOf(r *http.Request) string {
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
