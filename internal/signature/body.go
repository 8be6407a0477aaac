package signature

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/hex"
	"hash"
	"strings"
)

// BodyHeader is the name of the header with the signature of a body: sha224, sha256, sha384 or sha512, = and hexadecimal digits.
const BodyHeader = "X-Signature"

// VerifyBody reports whether a header is the HMAC of a body by a key, in constant time. An empty key verifies nothing.
func VerifyBody(header string, key, body []byte) bool {
	name, digits, _ := strings.Cut(header, "=")
	var algorithm func() hash.Hash
	switch name {
	case "sha224":
		algorithm = sha256.New224
	case "sha256":
		algorithm = sha256.New
	case "sha384":
		algorithm = sha512.New384
	case "sha512":
		algorithm = sha512.New
	default:
		return false
	}
	if len(key) == 0 || len(digits) > 2*sha512.Size {
		return false
	}
	got, err := hex.DecodeString(digits)
	if err != nil {
		return false
	}
	mac := hmac.New(algorithm, key)
	mac.Write(body)
	return hmac.Equal(got, mac.Sum(nil))
}
