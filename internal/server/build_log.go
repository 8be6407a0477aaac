package server

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/results"
	"github.com/waybill-dev/waybill/internal/service/buildview"
)

// buildHandler answers a request about one build.
type buildHandler func(w http.ResponseWriter, r *http.Request, b buildview.Reader, state buildview.State) error

// aboutBuild returns the answer to requests about one build.
func (s *Server) aboutBuild(answer buildHandler) func(w http.ResponseWriter, r *http.Request) error {
	return func(w http.ResponseWriter, r *http.Request) error {
		b, state, err := s.service.BuildState(r.Context(), r.PathValue("build"))
		if err != nil {
			return err
		}
		return answer(w, r, b, state)
	}
}

// forbidScript keeps a browser from running foreign content that is opened on this origin.
func forbidScript(header http.Header) {
	header.Set("Content-Security-Policy", "sandbox; default-src 'none'")
	header.Set("X-Content-Type-Options", "nosniff")
}

// readBuildLog answers with entries as JSON, with the text of all, or with the bytes of one step's log.
func (s *Server) readBuildLog(w http.ResponseWriter, r *http.Request, b buildview.Reader, state buildview.State) error {
	q, err := buildview.ReadLogQuery(state, r.URL.Query())
	if err != nil {
		return err
	}
	forbidScript(w.Header())
	if r.URL.Query().Has("raw") {
		return sendRawLog(w, r, b, state, q)
	}
	if r.URL.Query().Has("text") || strings.Contains(r.Header.Get("Accept"), "text/plain") {
		return sendTextLog(w, r, b, state, q)
	}
	if q.Limit == 0 {
		q.Limit = buildview.DefaultEntries
		if q.Tail > 0 {
			q.Limit = buildview.MostEntries
		}
	}
	return sendJSONLog(w, r, b, state, q)
}

// sendJSONLog sends a list of entries, and the address of the next ones in a header Link.
func sendJSONLog(w http.ResponseWriter, r *http.Request, b buildview.Reader, state buildview.State, q buildview.LogQuery) error {
	entries := []buildview.LogEntry{}
	size := 0
	err := buildview.EachEntry(r.Context(), b, q, func(e build.Line) error {
		if size += len(e.Text); size > mostAnswer && len(entries) > 0 {
			return buildview.ErrEnough
		}
		entries = append(entries, buildview.LogEntryOf(state.ID, e))
		return nil
	})
	if err != nil {
		return err
	}
	if n := len(entries); n == q.Limit || size > mostAnswer {
		last := entries[n-1]
		next := r.URL.Query()
		next.Set("after", fmt.Sprintf("%d:%d", last.StepID, last.ID))
		next.Del("tail")
		w.Header().Set("Link", fmt.Sprintf("<%s?%s>; rel=\"next\"", r.URL.EscapedPath(), next.Encode()))
	}
	w.Header().Set("Content-Type", "application/json")
	answer, err := json.Marshal(entries)
	if err != nil {
		return fmt.Errorf("encode the log of build %s: %w", state.ID, err)
	}
	_, _ = w.Write(append(escapeControls(answer), '\n')) // a client that has gone needs no answer
	return nil
}

// mostAnswer bounds the texts of one answer in JSON, in bytes.
const mostAnswer = 16 << 20

// sendTextLog sends lines as a terminal without colours shows them. Those of several steps have the step in front.
func sendTextLog(w http.ResponseWriter, r *http.Request, b buildview.Reader, state buildview.State, q buildview.LogQuery) error {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Content-Disposition", "inline; filename=\""+logFileName(state, q, "txt")+"\"")
	out := bufio.NewWriterSize(w, 64<<10)
	begins := true
	err := buildview.EachEntry(r.Context(), b, q, func(e build.Line) error {
		text := build.VisibleText(e.Text)
		if begins && len(q.Steps) > 1 {
			text = stepPath(state.Plan, e.Step) + " | " + text
		}
		if begins = !e.Partial; begins {
			text += "\n"
		}
		_, err := out.WriteString(text)
		return err
	})
	if err == nil {
		err = out.Flush()
	}
	if err != nil {
		panic(http.ErrAbortHandler) // the status is sent: breaking the connection is the only way to report the error
	}
	return nil
}

// stepPath returns stage/step; "build" for step 0.
func stepPath(p *build.Plan, id int) string {
	if step := p.Step(id); step != nil {
		return build.Printable(step.Path(), nil)
	}
	return "build"
}

// logFileName returns the name under which a browser saves a log.
func logFileName(state buildview.State, q buildview.LogQuery, ending string) string {
	name := "build-" + state.ID
	if len(q.Steps) == 1 {
		name += "-" + stepPath(state.Plan, q.Steps[0])
	}
	return build.FileNameOf(strings.ReplaceAll(name, "/", "-") + "." + ending)
}

// sendRawLog sends the bytes of a step's log as they are stored: entries with their times and marks.
func sendRawLog(w http.ResponseWriter, r *http.Request, b buildview.Reader, state buildview.State, q buildview.LogQuery) error {
	if len(q.Steps) != 1 {
		return fault.New(fault.Invalid, "raw gives the log of one step").WithHint("add step=STAGE/STEP")
	}
	step := q.Steps[0]
	end, err := b.Locate(r.Context(), step, q.TailEnd())
	if err != nil {
		return err
	}
	header := w.Header()
	header.Set("Content-Type", "application/octet-stream")
	header.Set("Content-Disposition", "attachment; filename=\""+logFileName(state, q, "log")+"\"")
	if last := state.Last(step); last.Trailer != nil && last.Trailer.SHA256 != "" {
		header.Set("ETag", `"`+last.Trailer.SHA256+`"`)
	}
	oneRange(r)
	http.ServeContent(w, r, "", time.Time{}, &rawLog{size: end.Offset, read: func(offset int64, buffer []byte) (int, error) {
		return b.ReadLog(r.Context(), step, offset, buffer)
	}})
	return nil
}

// oneRange has a request for several ranges answered with all bytes: each range costs a read, and a request has room for thousands.
func oneRange(r *http.Request) {
	if strings.Contains(r.Header.Get("Range"), ",") {
		r.Header.Del("Range")
	}
}

// rawLog reads the bytes of a step's log up to a size.
type rawLog struct {
	// read fills a buffer with the rest of the entry that an offset is in, and whole entries.
	read func(offset int64, buffer []byte) (int, error)
	size int64
	at   int64

	buffer []byte
	rest   []byte // rest of buffer, from at on
}

func (l *rawLog) Seek(offset int64, whence int) (int64, error) {
	switch whence {
	case io.SeekCurrent:
		offset += l.at
	case io.SeekEnd:
		offset += l.size
	}
	l.at, l.rest = offset, nil
	return offset, nil
}

func (l *rawLog) Read(p []byte) (int, error) {
	if l.at >= l.size {
		return 0, io.EOF
	}
	if len(l.rest) == 0 {
		if l.buffer == nil {
			l.buffer = make([]byte, results.BatchSize)
		}
		n, err := l.read(l.at, l.buffer)
		if err != nil {
			return 0, err
		}
		if n == 0 {
			return 0, io.ErrUnexpectedEOF
		}
		l.rest = l.buffer[:min(int64(n), l.size-l.at)]
	}
	n := copy(p, l.rest)
	l.rest, l.at = l.rest[n:], l.at+int64(n)
	return n, nil
}

// sendArtifact sends the bytes of an artifact, which a browser saves and never shows.
func (s *Server) sendArtifact(w http.ResponseWriter, r *http.Request, b buildview.Reader, state buildview.State) error {
	id, err := strconv.Atoi(r.PathValue("artifact"))
	if err != nil {
		return fault.New(fault.NotFound, "artifact %q not found: want its number", fault.Clip(r.PathValue("artifact")))
	}
	a, err := state.Artifact(id)
	if err != nil {
		return err
	}
	content, err := b.OpenArtifact(r.Context(), a)
	if err != nil {
		return err
	}
	defer content.Close()
	header := w.Header()
	forbidScript(header)
	header.Set("Content-Type", "application/octet-stream")
	header.Set("Content-Disposition", mime.FormatMediaType("attachment", map[string]string{"filename": build.FileNameOf(a.Name)}))
	header.Set("ETag", `"`+a.SHA256+`"`)
	oneRange(r)
	http.ServeContent(w, r, "", time.Time{}, content)
	return nil
}
