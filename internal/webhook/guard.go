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
