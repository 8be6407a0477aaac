package binary

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
)

// key returns a hash of everything that decides the program's content: go.sum pins
// every dependency, so the module's own files and the toolchain are all of it.
func (b Binary) key() (string, error) {
	folder, err := b.folder()
	if err != nil {
		return "", err
	}
	var files []string
	for _, pattern := range []string{"go.mod", "go.sum", "*.go"} {
		found, err := filepath.Glob(filepath.Join(folder, pattern))
		if err != nil {
			return "", err
		}
		files = append(files, found...)
	}
	slices.Sort(files)
	hash := sha256.New()
	fmt.Fprintln(hash, runtime.Version(), runtime.GOOS, runtime.GOARCH, b.target, b.ldflags)
	if b.tags != "" || b.cgo {
		fmt.Fprintln(hash, b.tags, b.cgo)
	}
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			return "", err
		}
		fmt.Fprintln(hash, filepath.Base(file), len(content))
		hash.Write(content)
	}
	return hex.EncodeToString(hash.Sum(nil))[:16], nil
}
