// Package browsertest drives a real headless Chromium in tests. If it is missing and the test runs as root on Debian,
// the package installs it; else the test fails and names the packages to install.
package browsertest

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/target"
	"github.com/chromedp/chromedp"
)

// Limits of a browser and of a test that uses it. A test that opens ninety pages took two and a half minutes on a machine with
// a load of twenty.
const (
	installTimeout = 5 * time.Minute
	beginTimeout   = 5 * time.Minute // bounds the start until it listens
	browserTimeout = 15 * time.Minute
)

// installing is held by the test that searches for the browser, since installing it twice at once fails.
var installing sync.Mutex //nolint:gochecknoglobals // a lock of this process' tests

// shared is the browser of this process: started for the first test that needs it, ended with the last one.
var shared struct { //nolint:gochecknoglobals // of this process' tests
	sync.Mutex
	browser context.Context
	end     func()
	users   int
}

// Start opens a window, with cookies and storage of its own, until the test ends. The context is for chromedp.Run. Tests share
// one browser.
func Start(t testing.TB) context.Context {
	t.Helper()
	ctx, cancelTime := context.WithTimeout(acquire(t), browserTimeout)
	browser := cdp.WithExecutor(ctx, chromedp.FromContext(ctx).Browser)
	visitor, err := target.CreateBrowserContext().Do(browser)
	if err != nil {
		t.Fatalf("open a window of chromium: %v", err)
	}
	id, err := target.CreateTarget("about:blank").WithBrowserContextID(visitor).WithNewWindow(true).Do(browser)
	if err != nil {
		t.Fatalf("open a window of chromium: %v", err)
	}
	window, cancelWindow := chromedp.NewContext(ctx, chromedp.WithTargetID(id))
	t.Cleanup(func() {
		cancelWindow() // closes the window and waits
		_ = target.DisposeBrowserContext(visitor).Do(browser)
		cancelTime()
	})
	if err := chromedp.Run(window); err != nil {
		t.Fatalf("open a window of chromium: %v", err)
	}
	return window
}

// acquire gives the test a share of the process' browser.
func acquire(t testing.TB) context.Context {
	t.Helper()
	shared.Lock()
	defer shared.Unlock()
	if shared.users == 0 {
		shared.browser, shared.end = launch(t)
	}
	shared.users++
	t.Cleanup(release)
	return shared.browser
}

func release() {
	shared.Lock()
	defer shared.Unlock()
	if shared.users--; shared.users == 0 {
		shared.end()
	}
}

// launch starts a browser with a profile of its own; end ends it.
func launch(t testing.TB) (browser context.Context, end func()) {
	t.Helper()
	dir, err := os.MkdirTemp("", "waybill-browser-") //nolint:usetesting // it outlives the test
	if err != nil {
		t.Fatal(err)
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(find(t)), chromedp.UserDataDir(dir),
		chromedp.NoSandbox, chromedp.DisableGPU,
		chromedp.Flag("disable-quic", true), chromedp.Flag("no-first-run", true),
		chromedp.Flag("disable-background-networking", true), chromedp.Flag("disable-component-update", true),
		chromedp.Flag("disable-sync", true), chromedp.WSURLReadTimeout(beginTimeout),
		chromedp.Flag("force-prefers-reduced-motion", true), // animations took a third of a processor all the time
	)
	allocator, cancelAllocator := chromedp.NewExecAllocator(context.WithoutCancel(t.Context()), options...)
	browser, cancelBrowser := chromedp.NewContext(allocator)
	end = func() {
		closing, cancel := context.WithTimeout(browser, browserTimeout)
		defer cancel()
		_ = chromedp.Cancel(closing) // closes the browser and waits; an error means that it has gone already
		cancelBrowser()
		cancelAllocator()
		for range 10 { // a process of the browser may write into the folder after the browser has ended
			if os.RemoveAll(dir) == nil {
				break
			}
		}
	}
	if err := chromedp.Run(browser); err != nil {
		end()
		t.Fatalf("start chromium: %v", err)
	}
	return browser, end
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
	for _, line := range [][]string{{"apt-get", "update"},
		{"apt-get", "install", "-y", "--no-install-recommends", "chromium", "fonts-dejavu-core"}} {
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

// Save writes a screenshot of the browser's current page to the folder in WAYBILL_SCREENSHOTS; without that it does nothing.
func Save(browser context.Context, t testing.TB, name string) {
	t.Helper()
	dir := os.Getenv("WAYBILL_SCREENSHOTS")
	if dir == "" {
		return
	}
	var png []byte
	path := filepath.Join(dir, name+".png")
	err := chromedp.Run(browser, chromedp.FullScreenshot(&png, 100))
	if err == nil {
		err = os.WriteFile(path, png, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("screenshot %s", path)
}
