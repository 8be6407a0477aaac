package webhook

import (
	"crypto/ed25519"
	"encoding/base64"
	"strings"
	"testing"
	"time"
)

// The example that the Standard Webhooks specification's libraries test themselves with.
const (
	vectorSecret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	vectorID     = "msg_p5jXN8AQM9LWM0D4loKWxJek"
	vectorTime   = 1614265330
	vectorBody   = `{"test": 2432232314}`
	vectorResult = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
)

func key(t *testing.T, text string) Key {
	t.Helper()
	k, err := ParseKey(text)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func TestSignatureOfTheKnownVector(t *testing.T) {
	t.Parallel()
	header := Sign([]Key{key(t, vectorSecret)}, vectorID, time.Unix(vectorTime, 0), vectorBody)
	if got := header.Get("webhook-signature"); got != vectorResult {
		t.Errorf("got %s, want %s", got, vectorResult)
	}
	if header.Get("webhook-id") != vectorID || header.Get("webhook-timestamp") != "1614265330" {
		t.Errorf("%v", header)
	}
}

func TestRotationSignsWithEveryKeyNewestFirst(t *testing.T) {
	t.Parallel()
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	whole := key(t, "whsk_"+base64.StdEncoding.EncodeToString(private))
	seed := key(t, "whsk_"+base64.StdEncoding.EncodeToString(private.Seed()))
	header := Sign([]Key{whole, seed, key(t, vectorSecret)}, vectorID, time.Unix(vectorTime, 0), vectorBody)
	signatures := strings.Split(header.Get("Webhook-Signature"), " ")
	if len(signatures) != 3 || signatures[0] != signatures[1] || signatures[2] != vectorResult {
		t.Fatalf("got %q", signatures)
	}
	encoded, ok := strings.CutPrefix(signatures[0], "v1a,")
	signature, err := base64.StdEncoding.DecodeString(encoded)
	if !ok || err != nil || !ed25519.Verify(public, []byte(vectorID+".1614265330."+vectorBody), signature) {
		t.Errorf("%s does not verify", signatures[0])
	}
}

func TestKeysThatAreNoneAreNotQuoted(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "hunter2hunter2", "whsec_hunter2", "whsec_" + base64.StdEncoding.EncodeToString([]byte("hunter2")),
		"whsk_hunter2", "whsk_" + base64.StdEncoding.EncodeToString([]byte("hunter2"))} {
		if _, err := ParseKey(text); err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%q: %v", text, err)
		}
	}
}
