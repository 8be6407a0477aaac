package page

import (
	"net/http"
	"strconv"
	"strings"
)

// HostsPerPage is the largest number of hosts on a page, so that a pipeline of thousands of hosts
// does not freeze a browser.
const HostsPerPage = 200

// Hosts selects the hosts of one page among the hosts whose target contains a text.
type Hosts struct {
	Path    string // address of the page
	Find    string // text to search for; "": all hosts
	Page    int64  // page number, 1 or more
	Found   int
	Earlier string // address of the previous page; "": none
	Later   string // address of the next page; "": none
}

// HostsOf returns the selection of a request, before any host is counted.
func HostsOf(r *http.Request) (*Hosts, error) {
	page, err := Number(r, "page")
	return &Hosts{Path: r.URL.Path, Find: strings.TrimSpace(r.FormValue("find")), Page: max(1, page)}, err
}

// Take counts a host, by its target below the pipeline, and reports whether the page shows it.
func (h *Hosts) Take(target string) bool {
	if !strings.Contains(target, h.Find) {
		return false
	}
	h.Found++
	return int64(h.Found-1)/HostsPerPage == h.Page-1
}

// Close sets the addresses of the previous and the next page, once all hosts are counted.
func (h *Hosts) Close(r *http.Request) {
	switch h.Page {
	case 1:
	case 2:
		h.Earlier = WithQuery(r, "page", "")
	default:
		h.Earlier = WithQuery(r, "page", strconv.FormatInt(h.Page-1, 10))
	}
	if int64(h.Found-1)/HostsPerPage >= h.Page {
		h.Later = WithQuery(r, "page", strconv.FormatInt(h.Page+1, 10))
	}
}

// Partial reports whether the page may lack hosts.
func (h *Hosts) Partial() bool { return h.Find != "" || h.Page > 1 || h.Found > HostsPerPage }

// First returns the number of the first host on the page, 0 without hosts.
func (h *Hosts) First() int { return min(int(h.Page-1)*HostsPerPage+1, h.Found) }

// Last returns the number of the last host on the page, 0 without hosts.
func (h *Hosts) Last() int { return min(int(h.Page)*HostsPerPage, h.Found) }
