package operation

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"time"
)

// A server proves that it has the home's token before a command of the home sends it: once the server is down, any program of the
// machine can take its port. The command sends a nonce on each new connection, and the answer is a MAC of the nonce and of the place
// that was asked, with the token's hash as the key. A program in between gets no proof for a place of its own: the server
// proves only where it was asked itself.
const (
	NonceHeader = "Waybill-Nonce"
	ProofHeader = "Waybill-Proof"
	NonceSize   = 32 // bytes
	ProofWithin = 5 * time.Second
)

// ProofOf returns the proof that the holder of a token gives for a nonce, both in hex.
func ProofOf(token, nonce, host string) string {
	key := sha256.Sum256([]byte(token))
	mac := hmac.New(sha256.New, key[:])
	_, _ = fmt.Fprintf(mac, "waybill proof 1\n%s\n%s\n", nonce, host) // a hash takes everything
	return hex.EncodeToString(mac.Sum(nil))
}
