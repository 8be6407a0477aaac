package githosttest

import (
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"strings"
	"testing"
	"time"

	"github.com/waybill-dev/waybill/internal/githost"
)

// AppKeys returns the Secret's keys of a GitHub App whose key the model knows.
func (h *Host) AppKeys(t testing.TB) map[string]string {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	h.set(func() { h.appKey, h.lifetime = &key.PublicKey, time.Hour })
	text := pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)})
	return map[string]string{githost.KeyAppID: "12345", githost.KeyAppPrivateKey: string(text)}
}

// validJWT reports whether a token is one that GitHub accepts: signed by RS256, for ten minutes at most.
func validJWT(token string, key *rsa.PublicKey) bool {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return false
	}
	signature, err := base64.RawURLEncoding.DecodeString(parts[2])
	if err != nil {
		return false
	}
	sum := sha256.Sum256([]byte(parts[0] + "." + parts[1]))
	if rsa.VerifyPKCS1v15(key, crypto.SHA256, sum[:], signature) != nil {
		return false
	}
	content, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return false
	}
	var claims struct {
		IssuedAt int64  `json:"iat"`
		Expires  int64  `json:"exp"`
		Issuer   string `json:"iss"`
	}
	if json.Unmarshal(content, &claims) != nil {
		return false
	}
	now := time.Now().Unix()
	return claims.Issuer == "12345" && claims.IssuedAt <= now && claims.Expires > now && claims.Expires-claims.IssuedAt <= 600
}
