package signature_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/hex"
	"hash"
	"strings"
	"testing"
	"time"

	"github.com/waybill-dev/waybill/internal/signature"
)

const target = "/approval/apps/podinfo/prod/6.6.0?by=ana"

func request() signature.Request {
	return signature.Request{Method: "POST", Target: target, Body: []byte(`{"reason":"tested"}`)}
}

func signed(t *testing.T) signature.Signature {
	t.Helper()
	s, err := signature.Parse(signature.Signature{At: time.Unix(1_700_000_000, 0), Nonce: "n-1234567",
		Key: "hmac-key"}.Sign([]byte("secret"), request()))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestASignatureIsTheHMACOfFiveLines computes one as a shell would.
func TestASignatureIsTheHMACOfFiveLines(t *testing.T) {
	t.Parallel()
	body := sha256.Sum256(request().Body)
	mac := hmac.New(sha256.New, []byte("secret"))
	mac.Write([]byte("POST\n" + target + "\n1700000000\nn-1234567\n" + hex.EncodeToString(body[:]) + "\n"))
	s, err := signature.Parse("n=n-1234567, t=1700000000,k=hmac-key,v1=" + strings.ToUpper(hex.EncodeToString(mac.Sum(nil))))
	if err != nil || !s.Verify([]byte("secret"), request()) {
		t.Errorf("not verified: %+v, %v", s, err)
	}
}

func TestEverySignedFieldIsBound(t *testing.T) {
	t.Parallel()
	s := signed(t)
	if !s.Verify([]byte("secret"), request()) {
		t.Fatal("the signature is not verified")
	}
	for name, alter := range map[string]func(*signature.Signature, *signature.Request){
		"method": func(_ *signature.Signature, r *signature.Request) { r.Method = "PUT" },
		"path": func(_ *signature.Signature, r *signature.Request) {
			r.Target = strings.Replace(target, "prod", "dev", 1)
		},
		"query": func(_ *signature.Signature, r *signature.Request) { r.Target += "a" },
		"body":  func(_ *signature.Signature, r *signature.Request) { r.Body = append(r.Body, ' ') },
		"none":  func(_ *signature.Signature, r *signature.Request) { r.Body = nil },
		"time":  func(s *signature.Signature, _ *signature.Request) { s.At = s.At.Add(time.Second) },
		"nonce": func(s *signature.Signature, _ *signature.Request) { s.Nonce += "8" },
	} {
		s, r := signed(t), request()
		alter(&s, &r)
		if s.Verify([]byte("secret"), r) {
			t.Errorf("%s is not bound", name)
		}
	}
	for _, key := range []string{"", "secre", "secret\n"} {
		if s.Verify([]byte(key), request()) {
			t.Errorf("verified by the key %q", key)
		}
	}
}

func TestParseRefusesOtherHeaders(t *testing.T) {
	t.Parallel()
	digits := strings.Repeat("0a", sha256.Size)
	for _, header := range []string{
		"", "t=1", "t=1,n=12345678,k=a", "t=1,n=12345678,k=a,v1=0a", "t=1,n=12345678,k=a,v1=" + digits + "00",
		"t=1,n=12345678,k=a,v2=" + digits,
		"t=01,n=12345678,k=a,v1=" + digits, "t=-1,n=12345678,k=a,v1=" + digits, "t=1e3,n=12345678,k=a,v1=" + digits,
		"t=1234567890123,n=12345678,k=a,v1=" + digits, "t=1,n=1234567,k=a,v1=" + digits, "t=1,n=1234 678,k=a,v1=" + digits,
		"t=1,n=" + strings.Repeat("n", 129) + ",k=a,v1=" + digits, "t=1,n=12345678,k=,v1=" + digits, "t=1,n=12345678,k=a/b,v1=" + digits,
		"t=1,n=12345678,k=a,v1=" + digits + ",x=1", "t=1,t=1,n=12345678,k=a,v1=" + digits, "t=1,n=12345678,k=" +
			strings.Repeat("k", 2000) + ",v1=" + digits,
		"t=1,n=1234\n678,k=a,v1=" + digits, "t=1,n=12345678,k=a,v1=" + strings.Repeat("zz", sha256.Size),
	} {
		if s, err := signature.Parse(header); err == nil {
			t.Errorf("%q was read as %+v", header, s)
		}
	}
	if _, err := signature.Parse("v1=" + digits + ",k=hmac-key.2026,n=12345678,t=0"); err != nil {
		t.Error(err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add("t=1,n=12345678,k=a,v1=" + strings.Repeat("0a", sha256.Size))
	f.Fuzz(func(t *testing.T, header string) {
		s, err := signature.Parse(header)
		if err != nil {
			return
		}
		again, err := signature.Parse(s.Sign([]byte("k"), request()))
		if err != nil || again.Nonce != s.Nonce || again.Key != s.Key || !again.At.Equal(s.At) || !again.Verify([]byte("k"), request()) {
			t.Errorf("%q is %+v, written and read again %+v, %v", header, s, again, err)
		}
	})
}

func TestABodyIsSignedByFourAlgorithms(t *testing.T) {
	t.Parallel()
	for name, algorithm := range map[string]func() hash.Hash{"sha224": sha256.New224, "sha256": sha256.New, "sha384": sha512.New384, "sha512": sha512.New} {
		mac := hmac.New(algorithm, []byte("secret"))
		mac.Write([]byte("body"))
		header := name + "=" + hex.EncodeToString(mac.Sum(nil))
		if !signature.VerifyBody(header, []byte("secret"), []byte("body")) {
			t.Errorf("%s is not verified", header)
		}
		for _, bad := range []string{header + "00", header[:len(header)-2], strings.TrimPrefix(header, name+"="), "sha1" + header[6:], header + "g", ""} {
			if signature.VerifyBody(bad, []byte("secret"), []byte("body")) {
				t.Errorf("%q is verified", bad)
			}
		}
		if signature.VerifyBody(header, []byte("secre"), []byte("body")) || signature.VerifyBody(header, []byte("secret"), []byte("bodz")) {
			t.Errorf("%s is verified with another key or body", name)
		}
	}
	mac := hmac.New(sha256.New, nil)
	if signature.VerifyBody("sha256="+hex.EncodeToString(mac.Sum(nil)), nil, nil) {
		t.Error("an empty key verifies")
	}
}
