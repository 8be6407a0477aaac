package flow

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// CheckURI reports why a URI cannot be a sink. It must not lead to the machine or the network link of the program that sends to it,
// however its host is written. The error repeats neither the query nor the user information of the URI.
func CheckURI(uri string) error {
	parsed, err := url.Parse(uri)
	if err != nil {
		return errors.New("not a valid URL") // the error of url.Parse repeats the URL
	}
	switch {
	case parsed.Scheme != "http" && parsed.Scheme != "https":
		return errors.New("the scheme must be http or https")
	case parsed.User != nil:
		return errors.New("user information is not allowed")
	case parsed.Hostname() == "":
		return errors.New("the host is missing")
	}
	if port := parsed.Port(); port != "" {
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
			return fmt.Errorf("port %s is not between 1 and 65535", port)
		}
	}
	return checkHost(parsed.Hostname())
}

// servicePath returns the path of a Service with one slash at its begin. After two Knative would read a host, as in any relative
// reference (RFC 3986), and send the events there.
func servicePath(path string) string { return "/" + strings.TrimLeft(path, "/") }

// checkHost checks a host name or an address.
func checkHost(host string) error {
	if strings.ContainsFunc(host, func(r rune) bool { return r <= ' ' || r > '~' }) {
		// Programs map other characters to these, such as full-width digits.
		return errors.New("the host must be written in ASCII, without spaces")
	}
	if address, err := netip.ParseAddr(host); err == nil {
		return checkAddress(host, address)
	}
	name := strings.ToLower(strings.TrimRight(host, "."))
	labels := strings.Split(name, ".")
	switch last := labels[len(labels)-1]; {
	case slices.Contains(localNames[:], name), last == "localhost":
		return fmt.Errorf("host %s is the machine itself", host)
	case strings.Trim(last, "0123456789") == "", isHex(last):
		return checkNumeric(host, labels)
	}
	return nil
}

// localNames are the names besides localhost that /etc/hosts usually has for the machine itself.
var localNames = [...]string{"localhost.localdomain", "localhost4", "localhost4.localdomain4", "localhost6", "localhost6.localdomain6",
	"ip6-localhost", "ip6-loopback"}

func isHex(label string) bool {
	digits, ok := strings.CutPrefix(label, "0x")
	return ok && strings.Trim(digits, "0123456789abcdef") == ""
}

// checkNumeric checks a host that ends in a number: some programs read it as an IPv4 address of one to four parts, each decimal,
// octal or hexadecimal, of which the last fills the remaining bytes. Others read a leading zero as decimal.
func checkNumeric(host string, labels []string) error {
	octal, err := numericAddress(labels, 8)
	decimal, err10 := numericAddress(labels, 10)
	if err != nil && err10 != nil {
		return fmt.Errorf("host %s is neither a name nor an address", host)
	}
	if err == nil {
		if err := checkAddress(host, octal); err != nil {
			return err
		}
	}
	if err10 == nil {
		return checkAddress(host, decimal)
	}
	return nil
}

// numericAddress reads an IPv4 address of numeric parts. base is that of a part with a leading zero.
func numericAddress(parts []string, base int) (netip.Addr, error) {
	if len(parts) > 4 {
		return netip.Addr{}, errors.New("too many parts")
	}
	var sum uint64
	for i, part := range parts {
		digits, radix := part, 10
		if hex, ok := strings.CutPrefix(part, "0x"); ok {
			digits, radix = hex, 16
			if hex == "" {
				digits = "0" // as in browsers
			}
		} else if len(part) > 1 && part[0] == '0' {
			radix = base
		}
		bits := 8
		if i == len(parts)-1 {
			bits = 8 * (5 - len(parts))
		}
		n, err := strconv.ParseUint(digits, radix, bits)
		if err != nil {
			return netip.Addr{}, err
		}
		sum = sum<<bits | n
	}
	return netip.AddrFrom4([4]byte{byte(sum >> 24), byte(sum >> 16), byte(sum >> 8), byte(sum)}), nil
}

// checkAddress refuses loopback, unspecified and link-local addresses, also inside others: host is how they are written.
func checkAddress(host string, address netip.Addr) error {
	address = address.WithZone("").Unmap()
	for _, a := range append(embeddedIn(address), address) {
		switch {
		case a.IsLoopback():
			return fmt.Errorf("host %s is a loopback address", host)
		case a.IsUnspecified():
			return fmt.Errorf("host %s is the unspecified address", host)
		case a.IsLinkLocalUnicast(), a.IsLinkLocalMulticast(), a.IsInterfaceLocalMulticast():
			return fmt.Errorf("host %s is a link-local address", host)
		}
	}
	return nil
}

// embeddings are the networks of IPv6 whose addresses have an IPv4 address in them, and where: translators connect to that.
var embeddings = [...]struct {
	prefix netip.Prefix
	at     int
}{
	{netip.MustParsePrefix("::/96"), 12},
	{netip.MustParsePrefix("::ffff:0:0:0/96"), 12},
	{netip.MustParsePrefix("64:ff9b::/96"), 12},
	{netip.MustParsePrefix("2002::/16"), 2},
}

// embeddedIn returns the IPv4 addresses in an IPv6 address.
func embeddedIn(address netip.Addr) (found []netip.Addr) {
	bytes := address.As16()
	for _, e := range embeddings {
		if address.Is6() && e.prefix.Contains(address) {
			found = append(found, netip.AddrFrom4([4]byte(bytes[e.at:e.at+4])))
		}
	}
	return found
}
