package page

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"io/fs"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"
)

//go:embed assets
var assetFiles embed.FS

// assets are the files that pages refer to.
type assets struct {
	made   map[string]string // assets that the program makes, by name
	digest string            // digest of all assets, a part of their addresses: browsers may cache them forever
}

func newAssets(made map[string]string) assets {
	hash := sha256.New()
	for _, name := range slices.Sorted(maps.Keys(made)) {
		hash.Write([]byte(made[name]))
	}
	// Embedded files can always be read, so walking them does not fail.
	_ = fs.WalkDir(assetFiles, ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := fs.ReadFile(assetFiles, path)
		hash.Write(content)
		return err
	})
	return assets{made, hex.EncodeToString(hash.Sum(nil)[:6])}
}

// serveAsset serves an asset under the digest of this version's assets.
func (s *Site) serveAsset(w http.ResponseWriter, r *http.Request) {
	if r.PathValue("digest") != s.assets.digest {
		s.writeNotFound(w, r)
		return
	}
	w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
	name := r.PathValue("file")
	if text, ok := s.assets.made[name]; ok {
		http.ServeContent(w, r, name, time.Time{}, strings.NewReader(text))
		return
	}
	http.ServeFileFS(w, r, assetFiles, "assets/"+name)
}
