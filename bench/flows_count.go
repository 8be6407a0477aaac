package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/client-go/rest"

	"github.com/waybill-dev/waybill/internal/loop"
)

// readFlowLog reads the log of a controller to its end, and sends the address of its metrics; "" if there was none. Warnings are printed
// with WAYBILL_BENCH_VERBOSE.
func readFlowLog(log io.Reader, url chan<- string) {
	defer close(url)
	defer func() { _, _ = io.Copy(io.Discard, log) }() // the rest after a line that is too long: a full pipe would block the controller
	for lines := bufio.NewScanner(log); lines.Scan(); {
		var line struct{ Level, URL string }
		_ = json.Unmarshal(lines.Bytes(), &line) // a line that is not JSON is printed
		if line.URL != "" && url != nil {
			url <- line.URL
			url = nil // one is received
			continue
		}
		if verbose && line.Level != "INFO" {
			fmt.Fprintln(os.Stderr, lines.Text())
		}
	}
}

// requestLabels matches the labels of the API server's counter of requests.
var requestLabels = regexp.MustCompile(`(group|resource|subresource|verb)="([^"]*)"`)

// flowWrites returns the write requests that the API server has had so far for flows and the objects between source and sink, by verb
// and resource. It counts refused ones too, but not those that the bench makes: creations and deletions of flows, statuses of the rest.
func (c *flowCluster) flowWrites(ctx context.Context) (map[string]int, error) {
	client, err := rest.HTTPClientFor(c.admin)
	if err != nil {
		return nil, err
	}
	writes := map[string]int{}
	err = readMetrics(ctx, client, c.admin.Host+"/metrics", "apiserver_request_total{", func(labels string, value float64) {
		of := map[string]string{}
		for _, label := range requestLabels.FindAllStringSubmatch(labels, -1) {
			of[label[1]] = label[2]
		}
		if kind := writeKind(of["verb"], of["resource"], of["subresource"]); kind != "" {
			writes[kind] += int(value)
		}
	})
	if err != nil {
		return nil, fmt.Errorf("count the requests of the API server: %w", err)
	}
	return writes, nil
}

// writeKind names a write request of the controller; "": it is not one.
func writeKind(verb, resource, subresource string) string {
	if !slices.Contains([]string{"POST", "PUT", "PATCH", "APPLY", "DELETE"}, verb) {
		return ""
	}
	switch {
	case resource == "eventflows" && subresource == "status":
		return verb + " eventflows/status"
	case resource == "eventflows" && (verb == "POST" || verb == "DELETE"):
		return ""
	case subresource != "":
		return ""
	case slices.Contains([]string{"eventflows", "brokers", "subscriptions", "peerauthentications", "events"}, resource):
		return verb + " " + resource
	}
	return ""
}

// minus returns the differences of two counts that are not 0.
func minus(after, before map[string]int) map[string]int {
	rest := maps.Clone(after)
	for kind, n := range before {
		if rest[kind] -= n; rest[kind] == 0 {
			delete(rest, kind)
		}
	}
	return rest
}

// settledWrites returns the writes once none have come for a second.
func (c *flowCluster) settledWrites(ctx context.Context) (map[string]int, error) {
	last, err := c.flowWrites(ctx)
	for err == nil {
		if !loop.Pause(ctx, time.Second) {
			return nil, context.Cause(ctx)
		}
		var now map[string]int
		if now, err = c.flowWrites(ctx); err == nil && maps.Equal(now, last) {
			return now, nil
		}
		last = now
	}
	return nil, err
}

// passes returns how many passes over flows the controller has made.
func (c *flowController) passes(ctx context.Context) (n int, err error) {
	err = readMetrics(ctx, http.DefaultClient, c.url+"/metrics", "waybill_flow_reconcile_seconds_count{", func(_ string, value float64) { n += int(value) })
	return n, err
}

// readMetrics reads the metrics of a process whose names have a prefix.
func readMetrics(ctx context.Context, client *http.Client, url, prefix string, each func(labels string, value float64)) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", url, response.Status)
	}
	lines := bufio.NewScanner(response.Body)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		rest, ok := strings.CutPrefix(lines.Text(), prefix)
		at := strings.LastIndex(rest, "} ")
		if !ok || at < 0 {
			continue
		}
		value, err := strconv.ParseFloat(rest[at+2:], 64)
		if err != nil {
			return fmt.Errorf("read %s: %w", prefix, err)
		}
		each(rest[:at], value)
	}
	return lines.Err()
}
