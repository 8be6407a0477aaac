package cloudevent

import (
	"net/netip"
	"regexp"
	"strings"
)

// The parts of a URI reference, with the characters that RFC 3986, appendix A, allows in each. Package net/url is
// more lenient: it accepts blanks and characters that must be percent-encoded.
var (
	// components splits a reference (RFC 3986, appendix B). Its groups are scheme with colon, scheme, authority with
	// slashes, authority, path, query with its mark, query, fragment with hash, fragment.
	components = regexp.MustCompile(`^(([^:/?#]+):)?(//([^/?#]*))?([^?#]*)(\?([^#]*))?(#(.*))?$`)
	scheme     = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9+.-]*$`)
	userinfo   = regexp.MustCompile(`^([A-Za-z0-9._~!$&'()*+,;=:-]|%[0-9A-Fa-f]{2})*$`)
	regName    = regexp.MustCompile(`^([A-Za-z0-9._~!$&'()*+,;=-]|%[0-9A-Fa-f]{2})*$`)
	future     = regexp.MustCompile(`^[vV][0-9A-Fa-f]+\.[A-Za-z0-9._~!$&'()*+,;=:-]+$`)
	port       = regexp.MustCompile(`^(:[0-9]*)?$`)
	path       = regexp.MustCompile(`^([A-Za-z0-9._~!$&'()*+,;=:@/-]|%[0-9A-Fa-f]{2})*$`)
	query      = regexp.MustCompile(`^([A-Za-z0-9._~!$&'()*+,;=:@/?-]|%[0-9A-Fa-f]{2})*$`)
)

// isReference reports whether a text is a URI reference (RFC 3986, section 4.1).
func isReference(text string) bool {
	parts := components.FindStringSubmatch(text)
	return parts != nil && (parts[1] == "" || scheme.MatchString(parts[2])) && isRest(parts)
}

// isAbsolute reports whether a text is an absolute URI (RFC 3986, section 4.3), which has a scheme and no fragment.
func isAbsolute(text string) bool {
	parts := components.FindStringSubmatch(text)
	return parts != nil && scheme.MatchString(parts[2]) && parts[8] == "" && isRest(parts)
}

// isRest reports whether the parts of a reference after its scheme are valid.
func isRest(parts []string) bool {
	hasScheme, hasAuthority := parts[1] != "", parts[3] != ""
	first, _, _ := strings.Cut(parts[5], "/")
	switch {
	case hasAuthority && !isAuthority(parts[4]):
		return false
	case !hasScheme && !hasAuthority && strings.Contains(first, ":"): // it would be read as a scheme
		return false
	}
	return path.MatchString(parts[5]) && query.MatchString(parts[7]) && query.MatchString(parts[9])
}

// isAuthority reports whether a text is a host with an optional user and port.
func isAuthority(text string) bool {
	host := text
	if at := strings.LastIndexByte(text, '@'); at >= 0 {
		if !userinfo.MatchString(text[:at]) {
			return false
		}
		host = text[at+1:]
	}
	if inner, ok := strings.CutPrefix(host, "["); ok {
		literal, rest, closed := strings.Cut(inner, "]")
		return closed && port.MatchString(rest) && (isIPv6(literal) || future.MatchString(literal))
	}
	name := host
	if colon := strings.IndexByte(host, ':'); colon >= 0 {
		name = host[:colon]
	}
	return regName.MatchString(name) && port.MatchString(host[len(name):])
}

// isIPv6 reports whether a text is an address of IPv6, without a zone.
func isIPv6(text string) bool {
	ip, err := netip.ParseAddr(text)
	return err == nil && ip.Is6() && ip.Zone() == ""
}
