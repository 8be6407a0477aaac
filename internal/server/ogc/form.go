package ogc

import (
	"bytes"
	"encoding/json"
	"fmt"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/server"
)

// form is the encoding in which a client wants an answer.
type form uint8

const (
	jsonForm form = iota
	htmlForm
)

// Media types.
const (
	typeJSON    = "application/json"
	typeHTML    = "text/html"
	typeProblem = "application/problem+json"
	typeSchema  = "application/schema+json"
	typeOpenAPI = "application/vnd.oai.openapi+json;version=3.0"
)

// formOf returns the form in f=, else the one that Accept prefers; JSON if both are equal.
func formOf(r *http.Request) (form, error) {
	if values, ok := r.URL.Query()["f"]; ok {
		switch strings.Join(values, ",") {
		case "json":
			return jsonForm, nil
		case "html":
			return htmlForm, nil
		}
		return jsonForm, fault.New(fault.Invalid, "f=%s: want json or html", strings.Join(values, ","))
	}
	if weight(r, typeHTML) > max(weight(r, typeJSON), weight(r, typeProblem), weight(r, "application/vnd.oai.openapi+json")) {
		return htmlForm, nil
	}
	return jsonForm, nil
}

// weight returns the quality of a media type in Accept, from 0 to 1. Of several matching ranges the
// most specific one counts.
func weight(r *http.Request, mediaType string) float64 {
	family, _, _ := strings.Cut(mediaType, "/")
	found, specific := 0.0, 0
	for part := range strings.SplitSeq(strings.Join(r.Header.Values("Accept"), ","), ",") {
		name, parameters, err := mime.ParseMediaType(part)
		rank := map[string]int{mediaType: 3, family + "/*": 2, "*/*": 1}[name]
		if err != nil || rank <= specific {
			continue
		}
		specific, found = rank, 1
		if q, err := strconv.ParseFloat(parameters["q"], 64); err == nil {
			found = q
		}
	}
	return found
}

// reply is the answer of an operation.
type reply struct {
	status int    // 0: 200
	name   string // name of its page; "": it has no page and is never sent as HTML
	doc    any
	raw    []byte // sent instead of doc
	kind   string // Content-Type; "": JSON
	header http.Header
}

// writeReply sends an answer in the form that the client wants.
func (a *API) writeReply(w http.ResponseWriter, r *http.Request, answer reply, asked form) {
	for name, values := range answer.header {
		w.Header()[name] = append(w.Header()[name], values...)
	}
	status := answer.status
	if status == 0 {
		status = http.StatusOK
	}
	if asked == htmlForm && answer.name != "" {
		a.pages.Document(w, r, answer.name, answer.doc)
		return
	}
	kind, content := answer.kind, answer.raw
	if kind == "" {
		kind = typeJSON
	}
	if answer.raw == nil && answer.doc != nil {
		content = encodeJSON(answer.doc)
	}
	if status == http.StatusNoContent {
		w.WriteHeader(status)
		return
	}
	setContentHeaders(w.Header(), kind)
	w.Header().Set("Content-Type", kind)
	w.Header().Set("Content-Length", strconv.Itoa(len(content)))
	w.WriteHeader(status)
	_, _ = w.Write(content) // a client that has gone needs no answer
}

// setContentHeaders keeps a browser from running an answer. Inputs and outputs of jobs are foreign
// content on Waybill's own origin, where a script could act for the person who is logged in. The
// server sets nosniff in every answer.
func setContentHeaders(header http.Header, kind string) {
	header.Set("Content-Security-Policy", "sandbox; default-src 'none'")
	if !isInert(kind) {
		header.Set("Content-Disposition", "attachment")
	}
}

// isInert reports whether browsers show content of a kind without running it.
func isInert(kind string) bool {
	name, _, err := mime.ParseMediaType(kind)
	family, _, _ := strings.Cut(name, "/")
	switch {
	case err != nil, strings.HasSuffix(name, "+xml"):
		return false
	case name == "text/plain", name == "text/csv", name == typeJSON, strings.HasSuffix(name, "+json"):
		return true
	}
	return family == "image" || family == "audio" || family == "video"
}

// encodeJSON returns a document as JSON. Documents only hold values that can be encoded.
func encodeJSON(doc any) []byte {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(doc); err != nil {
		return fmt.Appendf(nil, "%q\n", err.Error())
	}
	return b.Bytes()
}

// writeError answers with an error, as a page or as a problem (RFC 7807).
func (a *API) writeError(w http.ResponseWriter, r *http.Request, err error, asked form) {
	if asked == htmlForm && r.Method == http.MethodGet {
		a.pages.Fail(w, r, err)
		return
	}
	p := server.ProblemOf(w, err)
	switch {
	case fault.Is(err, fault.NoSuchProcess):
		p.Type = exceptions + "no-such-process"
	case fault.Is(err, fault.NoSuchAction):
		p.Type = exceptions + "no-such-job"
	}
	server.WriteProblemAs(w, p)
}

// exceptions is the prefix of the standard's own types of errors.
const exceptions = "http://www.opengis.net/def/exceptions/ogcapi-processes-1/1.0/"

// absoluteURL returns the address of a resource under the host that the client used. The path is
// escaped: see pathOf.
func absoluteURL(r *http.Request, path string, query url.Values) string {
	root := url.URL{Scheme: "http", Host: r.Host}
	if server.Encrypted(r) {
		root.Scheme = "https"
	}
	if len(query) > 0 {
		path += "?" + query.Encode()
	}
	return root.String() + path
}
