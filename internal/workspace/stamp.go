package workspace

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// gitFolder is the name of the repository of a folder.
const gitFolder = ".git"

// Stamp returns a digest of the names, modes, sizes and times of what Copy takes of a folder, the repository aside:
// another after a change. The error of a file that is removed in the meantime is fs.ErrNotExist.
func Stamp(root string, selected Selection) (string, error) {
	selected.Skip = append(slices.Clip(selected.Skip), filepath.Join(root, gitFolder))
	entries, _, err := list(root, selected)
	if err != nil {
		return "", fmt.Errorf("look at %s: %w", root, err)
	}
	sum := sha256.New()
	for _, e := range entries { // sorted by path
		if e.path == gitFolder || strings.HasPrefix(e.path, gitFolder+"/") {
			continue // a worktree's, which is elsewhere
		}
		info, err := os.Lstat(e.from)
		if err != nil {
			return "", fmt.Errorf("look at %s: %w", root, err)
		}
		fmt.Fprintf(sum, "%q %s", e.path, info.Mode())
		if !info.IsDir() { // what is in a folder that is left out changes the folder's time
			fmt.Fprintf(sum, " %d %d", info.Size(), info.ModTime().UnixNano())
		}
		fmt.Fprintln(sum)
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}
