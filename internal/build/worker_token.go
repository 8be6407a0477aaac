package build

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// BuilderKey is a secret from which the tokens of workers are made. Its number is part of each token.
type BuilderKey struct {
	Number int
	Secret []byte
}

// BuilderKeys are the valid keys, at most two of which are valid during a rotation. The first one makes new tokens.
type BuilderKeys []BuilderKey

// BuilderSecretSize is the length of a new key's secret, in bytes.
const BuilderSecretSize = 32

// Bounds of a file of keys.
const (
	mostBuilderKeys   = 2
	leastSecretSize   = 16
	mostBuilderNumber = 1_000_000
)

// ParseBuilderKeys reads a file of keys: one line each, such as "k2 SECRET", where SECRET is base64url without
// padding. An error does not repeat the content of the file.
func ParseBuilderKeys(text string) (BuilderKeys, error) {
	var keys BuilderKeys
	for i, line := range slices.Collect(strings.Lines(text)) {
		if strings.TrimSpace(line) == "" {
			continue
		}
		name, encoded, _ := strings.Cut(strings.TrimSpace(line), " ")
		digits, prefixed := strings.CutPrefix(name, "k")
		number, err := strconv.Atoi(digits)
		secret, secretErr := base64.RawURLEncoding.DecodeString(encoded)
		switch {
		case !prefixed || err != nil || number < 1 || number > mostBuilderNumber || digits != strconv.Itoa(number):
			return nil, fmt.Errorf("line %d: want the key's name, such as k1, in front", i+1)
		case secretErr != nil || len(secret) < leastSecretSize:
			return nil, fmt.Errorf("line %d: want at least %d bytes in base64url after the key's name", i+1, leastSecretSize)
		case len(keys) == mostBuilderKeys:
			return nil, fmt.Errorf("want at most %d keys", mostBuilderKeys)
		case len(keys) == 1 && keys[0].Number == number:
			return nil, fmt.Errorf("two keys are called k%d", number)
		}
		keys = append(keys, BuilderKey{number, secret})
	}
	if len(keys) == 0 {
		return nil, errors.New("want a key")
	}
	return keys, nil
}

// Format returns the text that ParseBuilderKeys reads.
func (keys BuilderKeys) Format() string {
	var text strings.Builder
	for _, key := range keys {
		fmt.Fprintf(&text, "k%d %s\n", key.Number, base64.RawURLEncoding.EncodeToString(key.Secret))
	}
	return text.String()
}

// Numbered returns the key with a number.
func (keys BuilderKeys) Numbered(number int) (key BuilderKey, ok bool) {
	for _, key := range keys {
		if key.Number == number {
			return key, true
		}
	}
	return BuilderKey{}, false
}

// WorkerToken returns the token of a build's worker. nonce is kept with the build.
func (key BuilderKey) WorkerToken(instance string, buildID int64, nonce string) string {
	mac := hmac.New(sha256.New, key.Secret)
	fmt.Fprintf(mac, "waybill worker\n%q\n%d\n%q\n", instance, buildID, nonce) // quoted, so that no two are equal
	return fmt.Sprintf("k%d.%s", key.Number, base64.RawURLEncoding.EncodeToString(mac.Sum(nil)))
}
