// Package browsertest drives a real headless Chromium in tests. If it is missing and the test runs as root on Debian, the
// package installs it; else the test fails with what to install.
package browsertest

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
)

// Limits of one browser. A test that opens ninety pages took two and a half minutes on a machine with a load of twenty.
const (
	installTimeout = 5 * time.Minute
	beginTimeout   = 5 * time.Minute // until it listens
	browserTimeout = 15 * time.Minute
)

// installing is held by the test that looks for the browser, since installing it twice at once fails.
var installing sync.Mutex //nolint:gochecknoglobals // a lock of this process' tests

// Start opens a browser with its own profile until the test ends. The context is for chromedp.Run. chromedp.NewContext of it
// opens another tab.
func Start(t testing.TB) context.Context {
	t.Helper()
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(find(t)), chromedp.UserDataDir(profile(t)),
		chromedp.NoSandbox, chromedp.DisableGPU,
		chromedp.Flag("disable-quic", true), chromedp.Flag("no-first-run", true),
		chromedp.Flag("disable-background-networking", true), chromedp.Flag("disable-component-update", true),
		chromedp.Flag("disable-sync", true), chromedp.WSURLReadTimeout(beginTimeout),
	)
	ctx, cancelTime := context.WithTimeout(context.WithoutCancel(t.Context()), browserTimeout)
	allocator, cancelAllocator := chromedp.NewExecAllocator(ctx, options...)
	browser, cancelBrowser := chromedp.NewContext(allocator)
	t.Cleanup(func() {
		_ = chromedp.Cancel(browser) // closes the browser and waits; an error means that it has gone already
		cancelBrowser()
		cancelAllocator()
		cancelTime()
	})
	if err := chromedp.Run(browser); err != nil {
		t.Fatalf("start chromium: %v", err)
	}
	return browser
}

// profile returns a folder for a browser's profile. A process of the browser may write into it after the browser has ended, so the folder of
// package testing, which fails the test of a folder that fills while it is removed, does not do.
func profile(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "waybill-browser-") //nolint:usetesting // see above
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for range 10 {
			if err = os.RemoveAll(dir); err == nil {
				return
			}
		}
		t.Logf("the profile of a browser is left: %v", err)
	})
	return dir
}

// find returns the path of the browser, and installs it if it is missing.
func find(t testing.TB) string {
	t.Helper()
	installing.Lock()
	defer installing.Unlock()
	if path := lookUp(); path != "" {
		return path
	}
	if os.Geteuid() != 0 {
		t.Fatal("this test needs chromium: apt-get install chromium, or put one into PATH")
	}
	ctx, cancel := context.WithTimeout(t.Context(), installTimeout)
	defer cancel()
	for _, line := range [][]string{{"apt-get", "update"}, {"apt-get", "install", "-y", "--no-install-recommends", "chromium", "fonts-dejavu-core"}} {
		command := exec.CommandContext(ctx, line[0], line[1:]...)
		command.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
		if output, err := command.CombinedOutput(); err != nil {
			t.Fatalf("this test needs chromium, and %v: %v\n%s", line, err, output)
		}
	}
	path := lookUp()
	if path == "" {
		t.Fatal("this test needs chromium, and it is not in PATH after its installation")
	}
	return path
}

func lookUp() string {
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome", "google-chrome-stable"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	return ""
}

// Save writes a screenshot to the folder in WAYBILL_SCREENSHOTS, which outlives the test, or else to a temporary one.
func Save(t testing.TB, name string, png []byte) {
	t.Helper()
	dir := os.Getenv("WAYBILL_SCREENSHOTS")
	if dir == "" {
		dir = t.TempDir()
	}
	path := filepath.Join(dir, name+".png")
	if err := os.WriteFile(path, png, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Logf("screenshot %s", path)
}
