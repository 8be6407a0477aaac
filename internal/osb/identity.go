package osb

import (
	"encoding/base64"
	"net/http"
	"regexp"
	"strings"
)

// Names of headers.
const (
	headerVersion  = "X-Broker-Api-Version"
	headerIdentity = "X-Broker-Api-Originating-Identity"
)

// Identity is the originating identity: the user of the platform that a request is for.
type Identity struct {
	Platform string
	Value    Canonical // the platform's description of the user
}

// served matches the versions of the standard that are served: every 2.x.
var served = regexp.MustCompile(`^2\.[0-9]+$`)

// checkVersion refuses requests that do not name one version that is served.
func checkVersion(header http.Header) *Error {
	if values := header.Values(headerVersion); len(values) == 1 && served.MatchString(values[0]) {
		return nil
	}
	return &Error{Status: http.StatusPreconditionFailed, Code: CodeVersion,
		Description: "X-Broker-API-Version: want a version from 2.0, such as 2.17"}
}

// readIdentity reads the header of the originating identity; nil if it is absent.
func readIdentity(header http.Header) (*Identity, *Error) {
	values := header.Values(headerIdentity)
	if len(values) == 0 {
		return nil, nil
	}
	platform, encoded, found := strings.Cut(values[0], " ")
	if len(values) > 1 || !found || platform == "" {
		return nil, invalid("%s: want a platform, a blank, and an object in base64", headerIdentity)
	}
	text, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil {
		return nil, invalid("%s: the part after the blank is not base64", headerIdentity)
	}
	object, err := parseObject(text)
	if err != nil {
		return nil, invalid("%s: the object is not valid: %s", headerIdentity, err)
	}
	value, err := canonical(object)
	if err != nil {
		return nil, invalid("%s: %s", headerIdentity, err)
	}
	return &Identity{Platform: platform, Value: value}, nil
}
