package builds

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/fault"
)

// sealingLabel keeps the key of passwords apart from all else that a builder key is for.
const sealingLabel = "waybill passwords of builds"

// numberSize is the size of a key's number in front of the sealed text, in bytes.
const numberSize = 4

// Seal encrypts passwords with the first key, for the build of one action: four bytes with the key's number, the nonce, and AES-256-GCM
// of the values as JSON.
func Seal(keys build.BuilderKeys, of action.ID, values map[string]string) ([]byte, error) {
	if len(keys) == 0 {
		return nil, fault.New(fault.Refused, "without a builder key no password can be kept")
	}
	text, err := json.Marshal(values)
	if err != nil {
		return nil, err
	}
	sealing, err := sealer(keys[0])
	if err != nil {
		return nil, err
	}
	sealed := binary.BigEndian.AppendUint32(nil, uint32(keys[0].Number))
	nonce := make([]byte, sealing.NonceSize())
	if _, err := rand.Read(nonce); err != nil {
		return nil, err
	}
	return sealing.Seal(append(sealed, nonce...), nonce, text, of[:]), nil
}

// Unseal decrypts the output of Seal for the same action.
func Unseal(keys build.BuilderKeys, of action.ID, sealed []byte) (map[string]string, error) {
	if len(sealed) < numberSize {
		return nil, fault.New(fault.Corrupt, "the passwords are not stored any more")
	}
	number := int(binary.BigEndian.Uint32(sealed))
	key, known := keys.Numbered(number)
	if !known {
		return nil, fault.New(fault.Invalid,
			"the passwords were sealed with the key k%d, which this process does not have: all processes need the same builder.key", number)
	}
	sealing, err := sealer(key)
	if err != nil {
		return nil, err
	}
	if sealed = sealed[numberSize:]; len(sealed) < sealing.NonceSize() {
		return nil, fault.New(fault.Corrupt, "the stored passwords are damaged")
	}
	text, err := sealing.Open(nil, sealed[:sealing.NonceSize()], sealed[sealing.NonceSize():], of[:])
	if err != nil {
		return nil, fault.New(fault.Corrupt,
			"the stored passwords are damaged, or were sealed with another key: all processes need the same builder.key")
	}
	var values map[string]string
	return values, json.Unmarshal(text, &values)
}

func sealer(key build.BuilderKey) (cipher.AEAD, error) {
	derived := hmac.New(sha256.New, key.Secret)
	derived.Write([]byte(sealingLabel))
	block, err := aes.NewCipher(derived.Sum(nil))
	if err != nil {
		return nil, err
	}
	return cipher.NewGCM(block)
}
