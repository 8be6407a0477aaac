package operation

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/waybill-dev/waybill/internal/service/buildview"
)

// BuildLogInput selects entries of the log of a build.
type BuildLogInput struct {
	BuildPath
	Step   string    `query:"step" doc:"STAGE/STEP or the step's id; default: all"`
	After  string    `query:"after" doc:"entries after this one, STEP:LOGID, or LOGID of one step"`
	Since  time.Time `query:"since" doc:"entries then or later"`
	Before time.Time `query:"before" doc:"entries before"`
	Limit  int       `query:"limit" doc:"default 1000, at most 10000"`
	Tail   int       `query:"tail" doc:"only so many of the last entries of each step"`
	Text   string    `query:"text" doc:"text without control characters, whatever Accept says"`
	Raw    string    `query:"raw" doc:"the bytes of the log of one step, or a Range"`
}

// LogSearch holds the parameters of both searches in logs.
type LogSearch struct {
	Text  string `query:"q" required:"true" doc:"what entries contain, upper and lower case of ASCII letters alike"`
	Limit int    `query:"limit" doc:"default 1000, at most 10000"`
	After string `query:"after" doc:"the field next of an earlier answer"`
}

// SearchBuildInput is a search in the log of a build.
type SearchBuildInput struct {
	BuildPath
	LogSearch
	Step string `query:"step" doc:"STAGE/STEP or the step's id; default: all"`
}

// SearchLogsInput is a search in the logs of all builds of a project or a time.
type SearchLogsInput struct {
	LogSearch
	Project string    `query:"project" doc:"this or since is needed"`
	Since   time.Time `query:"since" doc:"of builds scheduled then or later"`
	Until   time.Time `query:"until" doc:"of builds scheduled before"`
}

// FollowBuildInput selects the events of a stream about a build.
type FollowBuildInput struct {
	BuildPath
	Step string `query:"step" doc:"STAGE/STEP or the step's id; default: all"`
}

// BuildArtifactPath names an artifact of a build.
type BuildArtifactPath struct {
	BuildPath
	Artifact int `path:"artifact"`
}

// Operations that read logs and artifacts of builds. Only a server answers them, with streams and files, and three of them
// with JSON too.
var (
	ReadBuildLog = Operation[BuildLogInput, []buildview.LogEntry]{ID: "read-build-log", Method: http.MethodGet,
		Path:    "/api/build/{build}/log",
		Summary: "The log of a build, or of a step"}
	SearchBuildLog = Operation[SearchBuildInput, buildview.Matches]{ID: "search-build-log", Method: http.MethodGet,
		Path:    "/api/build/{build}/log/search",
		Summary: "Entries of a build that contain a text, newest first, for at most ten seconds"}
	SearchLogs = Operation[SearchLogsInput, buildview.Matches]{ID: "search-logs", Method: http.MethodGet,
		Path:    "/api/log/search",
		Summary: "Entries of all builds of a project or a time that contain a text, newest first, for at most ten seconds"}
	FollowBuild = Operation[FollowBuildInput, Nothing]{ID: "follow-build", Method: http.MethodGet,
		Path:    "/api/build/{build}/stream",
		Summary: "What a build has printed and made, then what comes: events log, status, artifact and end; Last-Event-ID resumes"}
	GetBuildArtifact = Operation[BuildArtifactPath, Nothing]{ID: "get-build-artifact", Method: http.MethodGet,
		Path:    "/api/build/{build}/artifact/{artifact}",
		Summary: "The bytes of an artifact, or a Range"}
)

// EachLine calls each for the selected entries of a build's steps as far as they go now, step by step.
func EachLine(ctx context.Context, to Caller, in BuildLogInput, each func(buildview.Line) error) error {
	view, err := GetBuild.Call(ctx, to, in.BuildPath)
	if err != nil {
		return err
	}
	for in.Limit = buildview.MostEntries; ; {
		entries, err := ReadBuildLog.Call(ctx, to, in)
		if err != nil || len(entries) == 0 {
			return err
		}
		for _, e := range entries {
			if e.StepID == 0 && in.Step == "" {
				continue // Waybill's own notes are not a step's
			}
			if err := each(view.LineOf(e)); err != nil {
				return err
			}
		}
		last := entries[len(entries)-1]
		in.After = fmt.Sprintf("%d:%d", last.StepID, last.ID)
	}
}

// EachMatch calls each for the entries that a search in the logs of all builds finds, newest first: as many as its limit;
// 0: all. A search that takes longer than a request may is continued.
func EachMatch(ctx context.Context, to Caller, in SearchLogsInput, each func(buildview.LogEntry) error) error {
	return eachMatch(in.LogSearch, each, func(s LogSearch) (buildview.Matches, error) {
		in.LogSearch = s
		return SearchLogs.Call(ctx, to, in)
	})
}

// EachBuildMatch does the same in the log of one build.
func EachBuildMatch(ctx context.Context, to Caller, in SearchBuildInput, each func(buildview.LogEntry) error) error {
	return eachMatch(in.LogSearch, each, func(s LogSearch) (buildview.Matches, error) {
		in.LogSearch = s
		return SearchBuildLog.Call(ctx, to, in)
	})
}

// eachMatch reads matches page by page.
func eachMatch(s LogSearch, each func(buildview.LogEntry) error, search func(LogSearch) (buildview.Matches, error)) error {
	for most, given := s.Limit, 0; ; {
		if s.Limit = buildview.DefaultMatches; most > 0 {
			s.Limit = min(s.Limit, most-given)
		}
		found, err := search(s)
		if err != nil {
			return err
		}
		for _, m := range found.Matches {
			if err := each(m); err != nil {
				return err
			}
		}
		if given += len(found.Matches); found.Next == "" || most > 0 && given == most {
			return nil
		}
		s.After = found.Next
	}
}

// LineOf returns an entry of the build in the form that is printed.
func (v *BuildView) LineOf(e buildview.LogEntry) buildview.Line {
	line := buildview.Line{Step: "/", ID: e.ID, At: e.Timestamp, Stream: e.Stream, Partial: e.Partial, Text: e.Message}
	if step := v.Plan.Step(e.StepID); step != nil {
		line.Step = step.Path()
	}
	return line
}
