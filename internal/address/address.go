// Package address knows which addresses of the internet protocol are on the public internet.
package address

import (
	"fmt"
	"net/netip"
	"slices"
)

// Refused is the error for an address that the guard does not let through.
type Refused struct {
	Address netip.Addr
	Why     string
}

func (r *Refused) Error() string {
	return fmt.Sprintf("address %s is refused: %s; allowNetworks lets networks through", r.Address, r.Why)
}

// network is a range that is not on the public internet.
type network struct {
	prefix netip.Prefix
	why    string
}

// The ranges of the IANA special-purpose registries (RFC 6890 and later), and addresses at which
// clouds serve what belongs to the machine.
var (
	networks4 = ranges(
		"0.0.0.0/8", "this network", "10.0.0.0/8", "private", "100.64.0.0/10", "carrier-grade NAT", "127.0.0.0/8", "loopback",
		"169.254.0.0/16", "link-local, where machines read their metadata", "172.16.0.0/12", "private", "192.0.0.0/24", "reserved",
		"192.0.2.0/24", "documentation", "192.31.196.0/24", "reserved", "192.52.193.0/24", "reserved", "192.88.99.0/24", "reserved",
		"192.168.0.0/16", "private", "192.175.48.0/24", "reserved", "198.18.0.0/15", "benchmarking", "198.51.100.0/24", "documentation",
		"203.0.113.0/24", "documentation", "224.0.0.0/4", "multicast", "240.0.0.0/4", "reserved", "168.63.129.16/32", "a cloud's metadata")
	networks6 = ranges(
		"::1/128", "loopback", "::/128", "unspecified", "fc00::/7", "private", "fe80::/10", "link-local", "ff00::/8", "multicast",
		"2001:db8::/32", "documentation", "3fff::/20", "documentation", "2001::/23", "reserved", "2620:4f:8000::/48", "reserved")
	global6 = netip.MustParsePrefix("2000::/3")
	// IPv6 addresses that embed an IPv4 address: a translator connects to the embedded one.
	nat64  = netip.MustParsePrefix("64:ff9b::/96")
	sixTo4 = netip.MustParsePrefix("2002::/16")
)

func ranges(pairs ...string) []network {
	var networks []network
	for pair := range slices.Chunk(pairs, 2) {
		networks = append(networks, network{netip.MustParsePrefix(pair[0]), pair[1]})
	}
	return networks
}

// Check refuses an address that is neither on the public internet nor in a network of allow; the error is
// a *Refused.
func Check(address netip.Addr, allow []netip.Prefix) error {
	address = address.Unmap().WithZone("")
	if slices.ContainsFunc(allow, func(p netip.Prefix) bool { return p.Contains(address) }) {
		return nil
	}
	if inner, ok := embedded(address); ok {
		return Check(inner, allow)
	}
	networks := networks6
	if address.Is4() {
		networks = networks4
	}
	for _, n := range networks {
		if n.prefix.Contains(address) {
			return &Refused{address, n.why}
		}
	}
	if address.Is6() && !global6.Contains(address) {
		return &Refused{address, "reserved"}
	}
	return nil
}

// embedded returns the IPv4 address inside an IPv6 one.
func embedded(address netip.Addr) (netip.Addr, bool) {
	bytes := address.As16()
	switch {
	case !address.Is6():
	case nat64.Contains(address):
		return netip.AddrFrom4([4]byte(bytes[12:])), true
	case sixTo4.Contains(address):
		return netip.AddrFrom4([4]byte(bytes[2:6])), true
	}
	return netip.Addr{}, false
}
