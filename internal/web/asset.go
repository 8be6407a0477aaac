package web

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"io/fs"
	"net/http"
	"strings"
	"time"
)

//go:embed assets
var assetFiles embed.FS

// asset serves a file that is embedded in the program.
func (p *Pages) asset(w http.ResponseWriter, r *http.Request) {
	if r.PathValue("digest") != p.assets {
		p.writeNotFound(w, r)
		return
	}
	w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
	if r.PathValue("file") == "colours.css" {
		http.ServeContent(w, r, "colours.css", time.Time{}, strings.NewReader(p.colours))
		return
	}
	http.ServeFileFS(w, r, assetFiles, "assets/"+r.PathValue("file"))
}

// digest returns the digest of all files and of what is made from the code, so that a new version has new addresses.
func digest(files fs.FS, made string) string {
	hash := sha256.New()
	hash.Write([]byte(made))
	// Embedded files can always be read, so walking them does not fail.
	_ = fs.WalkDir(files, ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := fs.ReadFile(files, path)
		hash.Write(content)
		return err
	})
	return hex.EncodeToString(hash.Sum(nil)[:6])
}
