package webhook

import (
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// The headers of Standard Webhooks 1.0.
const (
	headerID        = "Webhook-Id"
	headerTimestamp = "Webhook-Timestamp"
	headerSignature = "Webhook-Signature"
)

// Key signs requests (Standard Webhooks 1.0).
type Key struct {
	shared  []byte             // whsec_: HMAC-SHA256
	private ed25519.PrivateKey // whsk_: Ed25519
}

// ParseKey reads whsec_ and the base64 of at least 24 bytes, or whsk_ and the base64 of an Ed25519
// private key (64 bytes) or its seed (32). The error does not quote it.
func ParseKey(text string) (Key, error) {
	if encoded, ok := strings.CutPrefix(text, "whsec_"); ok {
		shared, err := base64.StdEncoding.DecodeString(encoded)
		if err != nil || len(shared) < 24 || len(shared) > 64 {
			return Key{}, errors.New("after whsec_ want the base64 of 24 to 64 bytes")
		}
		return Key{shared: shared}, nil
	}
	if encoded, ok := strings.CutPrefix(text, "whsk_"); ok {
		private, err := base64.StdEncoding.DecodeString(encoded)
		switch {
		case err == nil && len(private) == ed25519.PrivateKeySize:
			return Key{private: private}, nil
		case err == nil && len(private) == ed25519.SeedSize:
			return Key{private: ed25519.NewKeyFromSeed(private)}, nil
		}
		return Key{}, errors.New("after whsk_ want the base64 of an Ed25519 private key (64 bytes) or its seed (32)")
	}
	return Key{}, errors.New("a signing secret begins with whsec_ or whsk_")
}

// sign returns one entry of the signature header.
func (k Key) sign(content []byte) string {
	if k.private != nil {
		return "v1a," + base64.StdEncoding.EncodeToString(ed25519.Sign(k.private, content))
	}
	mac := hmac.New(sha256.New, k.shared)
	mac.Write(content)
	return "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
}

// Sign returns the three headers: id is the same on every attempt, at is this one's time. There is one
// signature for each key, so that a receiver that knows the new or the old one accepts it.
func Sign(keys []Key, id string, at time.Time, body string) http.Header {
	timestamp := strconv.FormatInt(at.Unix(), 10)
	content := fmt.Appendf(nil, "%s.%s.%s", id, timestamp, body)
	signatures := make([]string, len(keys))
	for i, key := range keys {
		signatures[i] = key.sign(content)
	}
	header := http.Header{}
	header.Set(headerID, id)
	header.Set(headerTimestamp, timestamp)
	header.Set(headerSignature, strings.Join(signatures, " "))
	return header
}
