//go:build services

package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/waybill-dev/waybill/internal/childtest"
	"github.com/waybill-dev/waybill/test/testbed"
)

var product testbed.Product

func TestMain(m *testing.M) {
	status := m.Run()
	if product.Remove() != nil {
		status = max(status, 1)
	}
	os.Exit(status)
}

// demonstrate returns the script as a visitor runs it, and its folder for temporary files.
func demonstrate(t *testing.T) (script *exec.Cmd, folder string) {
	t.Helper()
	folder = t.TempDir()
	script = childtest.Command(t, "../../../../scripts/demo-promotion")
	script.Env = append(os.Environ(), "TMPDIR="+folder, childtest.ProgramVariable+"="+product.Path(t, "../../../.."))
	return script, folder
}

// TestDemonstration opens the printed page, as a visitor does, who then leaves: the rest runs without one.
func TestDemonstration(t *testing.T) {
	t.Parallel()
	script, folder := demonstrate(t)
	script.Stderr = os.Stderr
	leave, err := script.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := script.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := script.Start(); err != nil {
		t.Fatal(err)
	}
	var printed strings.Builder
	for lines := bufio.NewScanner(out); lines.Scan(); {
		fmt.Fprintln(&printed, lines.Text())
		if address, ok := strings.CutPrefix(lines.Text(), "  open "); ok {
			mustShowThePipeline(t, address)
			if err := leave.Close(); err != nil {
				t.Error(err)
			}
		}
	}
	if err := script.Wait(); err != nil {
		t.Fatalf("the demonstration: %v\n%s", err, &printed)
	}
	for _, want := range []string{"staging is merged", "prod waits for a person", "prod runs it", "the run is finished",
		"6.6.0 (was 6.5.4)", "Ctrl-C ends everything"} {
		if !strings.Contains(printed.String(), want) {
			t.Errorf("the demonstration printed\n%s\nwant it to contain %q", &printed, want)
		}
	}
	mustBeEmpty(t, folder)
}

// mustShowThePipeline logs in by an address and reads the page to which that leads. Every name below localhost is this computer.
func mustShowThePipeline(t *testing.T, address string) {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	dial := func(ctx context.Context, network, at string) (net.Conn, error) {
		_, port, _ := net.SplitHostPort(at)
		return new(net.Dialer).DialContext(ctx, network, net.JoinHostPort("127.0.0.1", port))
	}
	client := &http.Client{Jar: jar, Transport: &http.Transport{DialContext: dial, DisableKeepAlives: true}}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	page, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	if response.StatusCode != http.StatusOK || response.Request.URL.Path != "/pipelines/apps:podinfo" || !strings.Contains(string(page), "staging") {
		t.Errorf("%s led to %s: %s\n%s", address, response.Request.URL, response.Status, page)
	}
}

func TestDemonstrationEndsWhenItIsInterrupted(t *testing.T) {
	t.Parallel()
	script, folder := demonstrate(t)
	if _, err := script.StdinPipe(); err != nil { // a visitor who does not press Enter
		t.Fatal(err)
	}
	script.Stderr = os.Stderr
	out, err := script.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := script.Start(); err != nil {
		t.Fatal(err)
	}
	if lines := bufio.NewScanner(out); !lines.Scan() {
		t.Fatalf("the demonstration printed nothing: %v", lines.Err())
	}
	if err := script.Process.Signal(os.Interrupt); err != nil { // systems are being started
		t.Fatal(err)
	}
	if err := script.Wait(); err != nil {
		t.Errorf("an interrupted demonstration: %v", err)
	}
	mustBeEmpty(t, folder)
}

// mustBeEmpty fails the test if something is left in the folder for temporary files.
func mustBeEmpty(t *testing.T, folder string) {
	t.Helper()
	if left, err := os.ReadDir(folder); err != nil || len(left) > 0 {
		t.Errorf("left in %s: %v (%v)", folder, left, err)
	}
}
