package testbed

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
)

// chartShelf is a Helm repository in memory: index.yaml and the archives that it names.
type chartShelf struct {
	mutex sync.Mutex
	files map[string][]byte // archives by file name
	index map[string]string // entry of the index by chart and version
}

// AddChart adds versions of a chart to the server's Helm repository. A release of it is one ConfigMap with the name of
// the chart, because the testbed's clusters have no nodes.
func (g *GitServer) AddChart(t testing.TB, name string, versions ...string) {
	t.Helper()
	for _, version := range versions {
		if err := g.charts.add(name, version, map[string]string{"templates/configmap.yaml": chartTemplate}); err != nil {
			t.Fatalf("testbed: add chart %s %s: %v", name, version, err)
		}
	}
}

// AddBrokenChart adds a version of a chart that cannot be installed.
func (g *GitServer) AddBrokenChart(t testing.TB, name, version string) {
	t.Helper()
	broken := map[string]string{"templates/configmap.yaml": chartTemplate + "\nimmutable: not a boolean\n"}
	if err := g.charts.add(name, version, broken); err != nil {
		t.Fatalf("testbed: add chart %s %s: %v", name, version, err)
	}
}

const chartTemplate = `apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ .Chart.Name }}
data:
  version: {{ .Chart.Version | quote }}`

func (s *chartShelf) add(name, version string, files map[string]string) error {
	all := map[string]string{"Chart.yaml": fmt.Sprintf("apiVersion: v2\nname: %s\nversion: %q\nappVersion: %q\n", name, version, version)}
	maps.Copy(all, files)
	archive, err := packChart(name, all)
	if err != nil {
		return err
	}
	file := name + "-" + version + ".tgz"
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.files == nil {
		s.files, s.index = map[string][]byte{}, map[string]string{}
	}
	s.files[file] = archive
	s.index[name+" "+version] = fmt.Sprintf("  - {apiVersion: v2, name: %s, version: %q, appVersion: %q, digest: %x, urls: [%s]}\n",
		name, version, version, sha256.Sum256(archive), file)
	return nil
}

// packChart returns the archive of a chart. The same files give the same bytes.
func packChart(name string, files map[string]string) ([]byte, error) {
	var archive bytes.Buffer
	compressed := gzip.NewWriter(&archive)
	packed := tar.NewWriter(compressed)
	for _, file := range slices.Sorted(maps.Keys(files)) {
		content := []byte(files[file])
		if err := packed.WriteHeader(&tar.Header{Name: name + "/" + file, Mode: 0o644, Size: int64(len(content))}); err != nil {
			return nil, err
		}
		if _, err := packed.Write(content); err != nil {
			return nil, err
		}
	}
	if err := packed.Close(); err != nil {
		return nil, err
	}
	if err := compressed.Close(); err != nil {
		return nil, err
	}
	return archive.Bytes(), nil
}

// ServeHTTP serves the index and the archives.
func (s *chartShelf) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	content, ok := s.files[r.URL.Path]
	if r.URL.Path == "index.yaml" {
		content, ok = []byte(s.list()), true
	}
	if !ok {
		http.NotFound(w, r)
		return
	}
	_, _ = w.Write(content) // the client is gone if that fails
}

// list returns the index. The caller holds the mutex.
func (s *chartShelf) list() string {
	var b strings.Builder
	b.WriteString("apiVersion: v1\nentries:\n")
	last := ""
	for _, key := range slices.Sorted(maps.Keys(s.index)) {
		if name, _, _ := strings.Cut(key, " "); name != last {
			fmt.Fprintf(&b, "  %s:\n", name)
			last = name
		}
		b.WriteString(s.index[key])
	}
	return b.String()
}
