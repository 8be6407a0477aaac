package server

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/waybill-dev/waybill/internal/fault"
)

// HomeToken reads the token file (0600), making it when it is not there. A file that
// others may read is refused, since whoever read it may act.
func HomeToken(path string) (string, error) {
	token, err := readToken(path)
	if !errors.Is(err, fs.ErrNotExist) {
		return token, err
	}
	if err := writeToken(path, "wb_"+randomHex()); err != nil {
		return "", fault.New(fault.Unavailable, "make the token file: %w", err)
	}
	return readToken(path) // another process may have been first: its token counts
}

func readToken(path string) (string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return "", err
	}
	if info.Mode().Perm()&0o077 != 0 {
		return "", fault.New(fault.Invalid, "%s may be read by others (mode %04o)", path, info.Mode().Perm()).
			WithHint("chmod 600 %s", path)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return "", fault.New(fault.Unavailable, "read the token file: %w", err)
	}
	token := strings.TrimSpace(string(text))
	if len(token) < 16 {
		return "", fault.New(fault.Invalid, "%s does not hold a token", path).WithHint("delete it: the next start makes one")
	}
	return token, nil
}

// writeToken makes the file whole or not at all; it leaves one that is there.
func writeToken(path, token string) error {
	file, err := os.CreateTemp(filepath.Dir(path), ".token-*") // made with 0600
	if err != nil {
		return err
	}
	defer os.Remove(file.Name())
	_, writeErr := fmt.Fprintln(file, token)
	if err := errors.Join(writeErr, file.Sync(), file.Close()); err != nil {
		return err
	}
	if err := os.Link(file.Name(), path); !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}

// randomHex is 32 random bytes as 64 hex digits.
func randomHex() string {
	var random [32]byte
	_, _ = rand.Read(random[:]) // never fails
	return hex.EncodeToString(random[:])
}

// sameSecret compares secrets in a time that does not depend on where they differ.
func sameSecret(a, b string) bool {
	left, right := sha256.Sum256([]byte(a)), sha256.Sum256([]byte(b))
	return subtle.ConstantTimeCompare(left[:], right[:]) == 1
}
