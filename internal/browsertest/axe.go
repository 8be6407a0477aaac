package browsertest

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha512"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// axe-core checks pages by the rules of WCAG. It is an npm package, which is fetched once and kept in the user's cache.
const (
	axeVersion   = "4.10.3"
	axePackage   = "axe-core@" + axeVersion
	axeIntegrity = "Xm7bpRXnDSX2YE2YFfBk2FnF0ep6tmG7xPh8iHee8MIcrgq762Nkce856dYtJYLkuIoYZvGfTs/PbZhideTcEg==" // SHA-512 of the package
	axeFile      = "package/axe.min.js"
	axeTimeout   = 5 * time.Minute
	axeLimit     = 8 << 20 // bytes of the package, and of the script in it
)

// loading is held by the test that fetches the script.
var loading sync.Mutex //nolint:gochecknoglobals // a lock of this process' tests

// Accessible runs axe-core on the browser's current page. It fails the test for every rule that the page breaks, with the
// places.
func Accessible(browser context.Context, t testing.TB, name string) {
	t.Helper()
	var broken []struct {
		ID    string   `json:"id"`
		Help  string   `json:"help"`
		Nodes []string `json:"nodes"`
	}
	wait := func(p *runtime.EvaluateParams) *runtime.EvaluateParams { return p.WithAwaitPromise(true) }
	err := chromedp.Run(browser, chromedp.Evaluate(axeScript(t)+";true", nil), chromedp.Evaluate(
		`axe.run({resultTypes: ["violations"]}).then((found) => found.violations.map((v) => ({id: v.id, help: v.help, nodes: v.nodes.map((n) => n.html)})))`,
		&broken, wait))
	if err != nil {
		t.Fatalf("%s: run axe: %v", name, err)
	}
	for _, rule := range broken {
		t.Errorf("%s: breaks the rule %s (%s) at %d places:\n%q", name, rule.ID, rule.Help, len(rule.Nodes), rule.Nodes[:min(5, len(rule.Nodes))])
	}
}

// axeScript returns axe-core's source.
func axeScript(t testing.TB) string {
	t.Helper()
	loading.Lock()
	defer loading.Unlock()
	dir, err := os.UserCacheDir()
	if err != nil {
		t.Fatalf("find the cache for axe-core: %v", err)
	}
	path := filepath.Join(dir, "waybill-test", "axe-core-"+axeVersion+".min.js")
	source, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		if source, err = fetchAxe(t.Context()); err == nil {
			err = keep(path, source)
		}
	}
	if err != nil {
		t.Fatalf("this test needs axe-core: %v\ntry: put axe.min.js of the npm package axe-core@%s at %s", err, axeVersion, path)
	}
	return string(source)
}

// fetchAxe downloads the package with npm, checks its digest, and returns its script.
func fetchAxe(ctx context.Context) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, axeTimeout)
	defer cancel()
	folder, err := os.MkdirTemp("", "axe-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(folder)
	said, err := exec.CommandContext(ctx, "npm", "pack", "--silent", "--pack-destination", folder, axePackage).CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("npm pack %s: %w\n%s", axePackage, err, said)
	}
	packed, err := os.ReadFile(filepath.Join(folder, "axe-core-"+axeVersion+".tgz"))
	if err != nil {
		return nil, err
	}
	if sum := sha512.Sum512(packed); base64.StdEncoding.EncodeToString(sum[:]) != axeIntegrity {
		return nil, fmt.Errorf("%s does not have the pinned digest", axePackage)
	}
	unzipped, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", axePackage, err)
	}
	for files := tar.NewReader(unzipped); ; {
		header, err := files.Next()
		if err != nil {
			return nil, fmt.Errorf("find %s in %s: %w", axeFile, axePackage, err)
		}
		if header.Name == axeFile {
			return io.ReadAll(io.LimitReader(files, axeLimit))
		}
	}
}

// keep writes a file with all of its content or not at all, since tests of other packages may read it.
func keep(path string, content []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	file, err := os.CreateTemp(filepath.Dir(path), ".axe-*")
	if err != nil {
		return err
	}
	defer os.Remove(file.Name())
	_, err = file.Write(content)
	if err := errors.Join(err, file.Close()); err != nil {
		return err
	}
	return os.Rename(file.Name(), path)
}
