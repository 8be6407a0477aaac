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
	"github.com/waybill-dev/waybill/internal/file"
)

// HomeToken returns the token in a file (0600), which it creates if necessary. It refuses a file that other users may read,
// since the token gives every right.
func HomeToken(path string) (string, error) {
	token, err := readToken(path)
	if !errors.Is(err, fs.ErrNotExist) {
		return token, err
	}
	if err := writeToken(path, "wb_"+randomHex()); err != nil {
		return "", fault.New(fault.Unavailable, "make the token file: %w", err)
	}
	return readToken(path) // another process may have created the file first: use its token
}

func readToken(path string) (string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return "", err
	}
	if info.Mode().Perm()&0o077 != 0 {
		return "", fault.New(fault.Invalid, "%s may be read by other users (mode %04o)", path, info.Mode().Perm()).
			WithHint("chmod 600 %s", path)
	}
	text, err := file.Read(path, file.Most)
	if err != nil {
		return "", fault.New(fault.Unavailable, "read the token file: %w", err)
	}
	token := strings.TrimSpace(string(text))
	if len(token) < 16 {
		return "", fault.New(fault.Invalid, "%s does not hold a token", path).WithHint("delete it: the next start creates one")
	}
	return token, nil
}

// writeToken creates the file with all of its content or not at all. It leaves an existing file as it is.
func writeToken(path, token string) error {
	file, err := os.CreateTemp(filepath.Dir(path), ".token-*") // mode 0600
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

// randomHex returns 32 random bytes as 64 hex digits.
func randomHex() string {
	var random [32]byte
	_, _ = rand.Read(random[:]) // never fails
	return hex.EncodeToString(random[:])
}

// sameSecret reports whether secrets are equal, in a time that does not depend on where they differ.
func sameSecret(a, b string) bool {
	left, right := sha256.Sum256([]byte(a)), sha256.Sum256([]byte(b))
	return subtle.ConstantTimeCompare(left[:], right[:]) == 1
}
