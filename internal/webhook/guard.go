package webhook

import (
	"fmt"
	"net/netip"
	"syscall"

	"github.com/waybill-dev/waybill/internal/address"
)

// Guard refuses connections to addresses that are not on the public internet, so that a request
// whose target another party chose cannot reach services beside this process. It looks at the
// address that is dialed, after every name was resolved: a name that changes its address between a
// check and the connection gains nothing.
type Guard struct {
	Allow []netip.Prefix // networks that are reachable all the same
}

// Private returns the networks of organizations, which are not on the public internet (RFC 1918, RFC 4193, RFC 6598).
func Private() []netip.Prefix {
	return []netip.Prefix{
		netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("172.16.0.0/12"), netip.MustParsePrefix("192.168.0.0/16"),
		netip.MustParsePrefix("100.64.0.0/10"), netip.MustParsePrefix("fc00::/7"),
	}
}

// Check refuses an address, or returns nil; the error is an *address.Refused.
func (g Guard) Check(at netip.Addr) error { return address.Check(at, g.Allow) }

// control returns a hook of net.Dialer. It is called with the address of every connection before it
// is made.
func (g Guard) control(_, to string, _ syscall.RawConn) error {
	at, err := netip.ParseAddrPort(to)
	if err != nil {
		return fmt.Errorf("connect to %s: %w", to, err)
	}
	return g.Check(at.Addr())
}
