package operation

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/builds"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/service"
	"github.com/waybill-dev/waybill/internal/service/buildview"
)

// StatusReport is a change of status from another build engine.
type StatusReport struct {
	BuildPath
	Body StatusReportBody
}

// StatusReportBody is the body of a StatusReport.
type StatusReportBody struct {
	Status   build.Status `json:"status" maxLength:"20" doc:"Running, Completed, Failed, Canceled, TimedOut, …"`
	Reason   string       `json:"reason,omitempty" maxLength:"200" doc:"a word"`
	Message  string       `json:"message,omitempty" maxLength:"8000" doc:"for people"`
	StepID   int          `json:"stepId,omitempty" minimum:"0" doc:"of a step, counting from 1; 0: of the build"`
	Stage    string       `json:"stage,omitempty" maxLength:"1000" doc:"of the step"`
	Step     string       `json:"step,omitempty" maxLength:"1000" doc:"the step's name"`
	Attempt  int          `json:"attempt,omitempty" minimum:"0" maximum:"2147483647"`
	ExitCode *int         `json:"exitCode,omitempty" minimum:"-2147483648" maximum:"2147483647"`
	At       time.Time    `json:"timestamp,omitzero" doc:"default: now"`
	EventID  string       `json:"eventId,omitempty" maxLength:"200" doc:"unique in the build: the same report again does nothing; default: step, status and attempt"`
}

// LogReportInput is one entry from another build engine, or a list.
type LogReportInput struct {
	BuildPath
	Content Content
}

// LogReport is one entry of a log from another build engine.
type LogReport struct {
	StepID     int       `json:"workerStepId"`
	LogID      int64     `json:"workerLogId"` // counts from 1 in each step
	Timestamp  time.Time `json:"timestamp"`   // zero: now
	Message    string    `json:"message"`     // one line, without its end
	LineEnding *string   `json:"lineEnding"`  // nil: "\n"; "": the line continues in the next entry
	Stream     string    `json:"stream"`      // stdout or stderr; "": stdout
}

// LogReported says how many entries of a report were new.
type LogReported struct {
	Added int `json:"added"`
}

// FileReport is an artifact, or a file of test results.
type FileReport struct {
	BuildPath
	StepID  int    `query:"step" minimum:"1" required:"true" doc:"the step's id"`
	Name    string `query:"name" minLength:"1" maxLength:"255" required:"true" doc:"of the file"`
	Content Content
}

// TestReport is a file of test results.
type TestReport struct {
	BuildPath
	StepID  int    `query:"step" minimum:"1" required:"true" doc:"the step's id"`
	Name    string `query:"name" minLength:"1" maxLength:"255" required:"true" doc:"of the file"`
	Content Content
	Format  string `query:"format" enum:"junit,trx" default:"junit"`
}

// Bounds of a report of a log.
const (
	LargestLogReport = 8 << 20 // bytes of the body
	mostLogReport    = 100_000 // entries
)

// Operations by which another build engine reports about a build.
var (
	ReportBuildStatus = Operation[StatusReport, builds.Event]{ID: "report-build-status", Method: http.MethodPut,
		Path: "/api/build/{build}/status", Scope: service.ScopeReport,
		Summary: "Report a status of a build of another build engine, or of its step"}
	ReportBuildLog = Operation[LogReportInput, LogReported]{ID: "report-build-log", Method: http.MethodPut,
		Path: "/api/build/{build}/log", Scope: service.ScopeReport,
		Summary: "Append entries of a build of another build engine: one or a list of {workerStepId, workerLogId, timestamp, " +
			"message, lineEnding, stream}"}
	ReportBuildArtifact = Operation[FileReport, buildview.Artifact]{ID: "report-build-artifact", Method: http.MethodPost,
		Path: "/api/build/{build}/artifact", Scope: service.ScopeReport,
		Summary: "Store an artifact of a build of another build engine; the same content again is fine"}
	ReportBuildTests = Operation[TestReport, buildview.Artifact]{ID: "report-build-tests", Method: http.MethodPost,
		Path: "/api/build/{build}/test-result", Scope: service.ScopeReport,
		Summary: "Store a JUnit or TRX file of a build of another build engine"}
)

// readLogReport reads one entry or a list.
func readLogReport(body []byte) (list []LogReport, err error) {
	if bytes.HasPrefix(bytes.TrimSpace(body), []byte("[")) {
		list, err = readLogList(body)
	} else {
		list = make([]LogReport, 1)
		err = json.Unmarshal(body, &list[0])
	}
	if _, coded := errors.AsType[*fault.Error](err); err != nil && !coded {
		err = fault.New(fault.Invalid, "the log is not an entry or a list of entries: %w", PlainJSON(err)).
			WithHint(`[{"workerStepId": 1, "workerLogId": 1, "message": "hello"}]`)
	}
	return list, err
}

// readLogList counts the entries while it reads: one takes far more memory than the two bytes that it may have in the body.
func readLogList(body []byte) (list []LogReport, err error) {
	reader := json.NewDecoder(bytes.NewReader(body))
	if _, err := reader.Token(); err != nil {
		return nil, err
	}
	for reader.More() {
		if len(list) == mostLogReport {
			return nil, fault.New(fault.TooLarge, "a report of a log has at most %d entries", mostLogReport).WithHint("send fewer entries at a time")
		}
		var one LogReport
		if err := reader.Decode(&one); err != nil {
			return nil, err
		}
		list = append(list, one)
	}
	if _, err := reader.Token(); err != nil {
		return nil, err
	}
	if _, err := reader.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("something follows the list")
	}
	return list, nil
}

// ParseLogReport reads the entries of a report.
func ParseLogReport(body []byte) ([]build.Line, error) {
	list, err := readLogReport(body)
	if err != nil {
		return nil, err
	}
	entries := make([]build.Line, len(list))
	for i, l := range list {
		e := build.Line{Step: l.StepID, ID: l.LogID, Entry: build.Entry{At: l.Timestamp, Text: []byte(l.Message)}}
		switch {
		case l.LineEnding == nil || *l.LineEnding == "\n":
		case *l.LineEnding == "\r\n":
			e.CRLF = true
		case *l.LineEnding == "":
			e.Partial = true
		default:
			return nil, fault.New(fault.Invalid, "[%d].lineEnding: want \"\\n\", \"\\r\\n\" or \"\", found %q", i, fault.Clip(*l.LineEnding))
		}
		switch l.Stream {
		case "", "stdout":
		case "stderr":
			e.Stderr = true
		default:
			return nil, fault.New(fault.Invalid, "[%d].stream: want stdout or stderr, found %q", i, fault.Clip(l.Stream))
		}
		entries[i] = e
	}
	return entries, nil
}
