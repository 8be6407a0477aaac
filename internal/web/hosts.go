package web

import (
	"net/http"
	"strconv"
	"strings"
)

// hostsPerPage is the largest number of hosts on a page, so that a pipeline of thousands of hosts
// does not freeze a browser.
const hostsPerPage = 200

// hostPage selects the hosts that a page shows: a part of those whose target has a text.
type hostPage struct {
	Path    string // of the page
	Find    string // the text; "": all hosts
	Page    int64  // from 1
	Found   int
	Earlier string // address of the page before; "": none
	Later   string // address of the page after; "": none
}

// hostPageOf returns the selection of a request. No host has been counted yet.
func hostPageOf(r *http.Request) (*hostPage, error) {
	page, err := queryNumber(r, "page")
	return &hostPage{Path: r.URL.Path, Find: strings.TrimSpace(r.FormValue("find")), Page: max(1, page)}, err
}

// Take counts a host, by its target below the pipeline, and reports whether the page shows it.
func (h *hostPage) Take(target string) bool {
	if !strings.Contains(target, h.Find) {
		return false
	}
	h.Found++
	return int64(h.Found-1)/hostsPerPage == h.Page-1
}

// close sets the addresses of the pages around, after all hosts were counted.
func (h *hostPage) close(r *http.Request) {
	switch h.Page {
	case 1:
	case 2:
		h.Earlier = withQuery(r, "page", "")
	default:
		h.Earlier = withQuery(r, "page", strconv.FormatInt(h.Page-1, 10))
	}
	if int64(h.Found-1)/hostsPerPage >= h.Page {
		h.Later = withQuery(r, "page", strconv.FormatInt(h.Page+1, 10))
	}
}

// Partial reports whether the page may show less than all hosts.
func (h *hostPage) Partial() bool { return h.Find != "" || h.Page > 1 || h.Found > hostsPerPage }

// First returns the number of the first host on the page, and Last that of the last one; both are 0
// without hosts.
func (h *hostPage) First() int { return min(int(h.Page-1)*hostsPerPage+1, h.Found) }

// Last returns the number of the last host on the page.
func (h *hostPage) Last() int { return min(int(h.Page)*hostsPerPage, h.Found) }
