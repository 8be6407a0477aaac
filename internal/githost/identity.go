package githost

import (
	"strconv"
	"strings"

	"github.com/waybill-dev/waybill/internal/promotion"
)

// identity names the promotion that a proposal or a commit belongs to.
type identity struct {
	pipeline string // namespace/name
	env      string
	revision promotion.Revision
	run      int64
	runID    string
	closed   string // why Waybill closed it; "": it has not
}

// belongs reports whether it is one of a pipeline's environment.
func (i identity) belongs(w promotion.Work) bool {
	return i.pipeline == w.Namespace+"/"+w.Pipeline && i.env == string(w.Env)
}

// The trailers of commits.
const (
	trailerPipeline    = "Waybill-Pipeline"
	trailerEnvironment = "Waybill-Environment"
	trailerRevision    = "Waybill-Revision"
	trailerRun         = "Waybill-Run"
)

// readTrailers returns the identity in the last paragraph of a commit's message. ok is false if it has none.
func readTrailers(message string) (id identity, ok bool) {
	message = strings.TrimSpace(strings.ReplaceAll(message, "\r\n", "\n"))
	if at := strings.LastIndex(message, "\n\n"); at >= 0 {
		message = message[at+2:]
	}
	for line := range strings.Lines(message) {
		key, value, found := strings.Cut(strings.TrimSpace(line), ":")
		if !found {
			continue
		}
		value = strings.TrimSpace(value)
		switch key {
		case trailerPipeline:
			id.pipeline = strings.Replace(value, ":", "/", 1)
		case trailerEnvironment:
			id.env = value
		case trailerRevision:
			id.revision = promotion.Revision(value)
		case trailerRun:
			id.run, _ = strconv.ParseInt(value, 10, 64)
		}
	}
	return id, id.pipeline != "" && id.env != "" && id.revision != ""
}

// The lines of the details block after its first one, which is namespace/name/environment.
const (
	lineRevision = "revision: "
	lineRun      = "run: "
	lineRunID    = "run id: "
	lineClosed   = "closed: "
)

// details returns the lines of the details block.
func (i identity) details() string {
	var b strings.Builder
	b.WriteString(oneLine(i.pipeline) + "/" + oneLine(i.env) + "\n")
	b.WriteString(lineRevision + oneLine(string(i.revision)) + "\n")
	b.WriteString(lineRun + strconv.FormatInt(i.run, 10) + "\n")
	if i.runID != "" {
		b.WriteString(lineRunID + oneLine(i.runID) + "\n")
	}
	if i.closed != "" {
		b.WriteString(lineClosed + oneLine(i.closed) + "\n")
	}
	return b.String()
}

// readDetails returns the identity in a proposal's body: in the last block of code that begins with
// namespace/name/environment. The original controller wrote that line alone; its revision is in the title.
func readDetails(title, body string) (id identity, ok bool) {
	body = strings.ReplaceAll(body, "\r\n", "\n")
	lines := strings.Split(body, "\n")
	for at := len(lines) - 1; at >= 0; at-- {
		first := strings.TrimSpace(lines[at])
		pipeline, env, ok := splitDetails(first)
		if !ok {
			continue
		}
		id := identity{pipeline: pipeline, env: env}
		id.readLines(lines[at+1:])
		if id.revision == "" {
			id.revision = revisionInTitle(title, pipeline, env)
		}
		if id.revision != "" {
			return id, true
		}
	}
	return identity{}, false
}

// splitDetails splits namespace/name/environment.
func splitDetails(line string) (pipeline, env string, ok bool) {
	parts := strings.Split(line, "/")
	if len(parts) != 3 || parts[0] == "" || parts[1] == "" || parts[2] == "" || strings.ContainsAny(line, " \t`<>") {
		return "", "", false
	}
	return parts[0] + "/" + parts[1], parts[2], true
}

func (i *identity) readLines(lines []string) {
	for _, line := range lines {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "```") {
			return
		}
		switch {
		case strings.HasPrefix(line, lineRevision):
			i.revision = promotion.Revision(strings.TrimPrefix(line, lineRevision))
		case strings.HasPrefix(line, lineRunID):
			i.runID = strings.TrimPrefix(line, lineRunID)
		case strings.HasPrefix(line, lineRun):
			i.run, _ = strconv.ParseInt(strings.TrimPrefix(line, lineRun), 10, 64)
		case strings.HasPrefix(line, lineClosed):
			i.closed = strings.TrimPrefix(line, lineClosed)
		}
	}
}

// revisionInTitle returns the revision in a title such as "Promote apps/podinfo in prod to 6.6.0".
func revisionInTitle(title, pipeline, env string) promotion.Revision {
	revision, found := strings.CutPrefix(title, "Promote "+pipeline+" in "+env+" to ")
	if !found {
		return ""
	}
	return promotion.Revision(strings.TrimSpace(revision))
}

// oneLine returns a text without line breaks and other control characters.
func oneLine(text string) string {
	return strings.TrimSpace(strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\r' || r == '\t' || r == '\u2028' || r == '\u2029' || r == '\u0085':
			return ' '
		case r < ' ' || r == 0x7f:
			return -1
		}
		return r
	}, strings.ToValidUTF8(text, "�")))
}
