package listener_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/waybill-dev/waybill/internal/bubbletest"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/listener"
)

// TestSourcesAreLimitedOneByOne: fifty at once, then five a second.
func TestSourcesAreLimitedOneByOne(t *testing.T) {
	t.Parallel()
	bubbletest.Test(t, func(t *testing.T) {
		s := listener.NewSources()
		accepted := func(source string, sent int) (n int) {
			for range sent {
				if err := s.Take(source); err == nil {
					n++
				} else if !fault.Is(err, fault.TooMany) {
					t.Error(err)
				}
			}
			return n
		}
		for _, c := range []struct {
			source string
			after  time.Duration
			want   int
		}{{"a", 0, 50}, {"b", 0, 50}, {"a", time.Second, 5}, {"a", time.Hour, 50}, {"b", 0, 50}} {
			<-time.After(c.after)
			if got := accepted(c.source, 80); got != c.want {
				t.Errorf("%s after %s: %d are accepted, want %d", c.source, c.after, got, c.want)
			}
		}
	})
}

// TestManySourcesAreForgotten: any number of addresses takes bounded memory, and refuses none.
func TestManySourcesAreForgotten(t *testing.T) {
	t.Parallel()
	s := listener.NewSources()
	for n := range 20_000 {
		if err := s.Take(fmt.Sprint(n)); err != nil {
			t.Fatal(err)
		}
	}
}

func TestSourcesByAddress(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]string{
		"192.0.2.7:1234": "192.0.2.7", "[::ffff:192.0.2.7]:1": "192.0.2.7", "[2001:db8:1:2:3::4]:1": "2001:db8:1:2::/64",
		"[fe80::1%eth0]:1": "fe80::/64", "192.0.2.7": "192.0.2.7", "pipe": "an unknown address", "": "an unknown address",
	} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.RemoteAddr = address
		if got := listener.SourceOf(r); got != want {
			t.Errorf("%q is of %q, want %q", address, got, want)
		}
	}
}
