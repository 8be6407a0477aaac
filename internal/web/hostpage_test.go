package web_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/waybill-dev/waybill/internal/servertest"
	"github.com/waybill-dev/waybill/internal/service"
)

// manyHosts returns a definition with 453 hosts, of which 450 are in prod/west.
func manyHosts() string {
	var hosts []string
	for i := range 450 {
		hosts = append(hosts, fmt.Sprintf(`{url: "local://h%03d", vars: {port: 7200}}`, i))
	}
	return strings.Replace(servertest.Definition, `[{url: "local://yew", vars: {port: 7104}}]`, "["+strings.Join(hosts, ", ")+"]", 1)
}

// A page has at most 200 hosts, of the first page or of the page in the address, and links to the
// pages around.
func TestPagesOfManyHostsAreBounded(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.Apply(t, manyHosts())
	s.Script.Hold("beta/all/oak host-deployed")
	ref := s.Ship(t, "greeter", "3f2c9a1")
	s.Until(t, ref, "reaches oak", func(v service.DeploymentView) bool {
		return v.State.Live == 1 && v.Stages[1].State == service.RunRunning
	})
	for _, c := range []struct {
		query, shown  string
		first, last   string
		hosts         int
		before, after bool
	}{
		{"", "1 to 200 of 453 hosts", "beta/all/oak", "prod/west/h196", 200, false, true},
		{"?page=2", "201 to 400 of 453 hosts", "prod/west/h197", "prod/west/h396", 200, true, true},
		{"?page=3", "401 to 453 of 453 hosts", "prod/west/h397", "prod/west/h449", 53, true, false},
		{"?find=west%2Fh44", "1 to 10 of 10 hosts", "prod/west/h440", "prod/west/h449", 10, false, false},
		{"?find=%22%3E%3Cb%3E", "no host", "", "", 0, false, false},
	} {
		for path, row := range map[string]string{"/pipelines/greeter": `<tr id="host-`,
			fmt.Sprintf("/deployments/greeter/%d", ref.Number): `<article class="host`} {
			page := s.page(t, path+c.query, "")
			if got := strings.Count(page, row) - strings.Count(page, `id="step-greeter/`); got != c.hosts {
				t.Errorf("%s%s has %d hosts, want %d", path, c.query, got, c.hosts)
			}
			for _, host := range []string{c.first, c.last} {
				if id := `id="host-greeter/` + host + `"`; !strings.Contains(page, id) &&
					!strings.Contains(page, `id="host-`+host+`"`) && host != "" {
					t.Errorf("%s%s does not have the host %s", path, c.query, host)
				}
			}
			if !strings.Contains(page, c.shown) || strings.Contains(page, ">earlier<") != c.before ||
				strings.Contains(page, ">later<") != c.after || strings.Contains(page, "><b>") {
				t.Errorf("%s%s does not say %q, or does not lead to the pages around", path, c.query, c.shown)
			}
		}
	}
	if got := s.get(t, "/pipelines/greeter?page=-1"); got != http.StatusBadRequest {
		t.Errorf("page -1: %d, want %d", got, http.StatusBadRequest)
	}
}

// get returns the status of the answer to a request for a page.
func (s *site) get(t *testing.T, path string) int {
	t.Helper()
	response, err := http.Get("http://" + s.Listener.Addr().String() + path)
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	return response.StatusCode
}
