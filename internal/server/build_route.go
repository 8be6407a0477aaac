package server

import (
	"net/http"
	"reflect"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/waybill-dev/waybill/internal/service/buildview"
)

// answered is an operation of builds that huma describes and does not answer: its answer is a stream or a file.
type answered struct {
	huma.Operation
	answer func(w http.ResponseWriter, r *http.Request) error
}

// route registers an operation together with its description. What it has not answered is answered with its error.
func route(mux *http.ServeMux, described huma.API, o answered) {
	described.OpenAPI().AddOperation(&o.Operation)
	mux.HandleFunc(o.Method+" "+o.Path, func(w http.ResponseWriter, r *http.Request) {
		err := checkQuery(r.URL.Query(), o.Parameters)
		if err == nil {
			err = o.answer(w, r)
		}
		if err != nil {
			WriteProblem(w, r, err)
		}
	})
}

// registerBuilds adds the operations whose answers are streams or files.
func (s *Server) registerBuilds(mux *http.ServeMux, described huma.API) {
	read := func(id, path, summary string, answer func(http.ResponseWriter, *http.Request) error,
		answers map[string]*huma.Schema, query ...*huma.Param) {
		op := huma.Operation{OperationID: id, Method: http.MethodGet, Path: path, Summary: summary,
			Parameters: append(pathParameters(path), query...),
			Responses: map[string]*huma.Response{"200": {Description: "OK", Content: map[string]*huma.MediaType{}},
				"default": {Description: "Error",
					Content: map[string]*huma.MediaType{"application/problem+json": {Schema: &huma.Schema{Type: huma.TypeObject}}}}}}
		for kind, schema := range answers {
			op.Responses["200"].Content[kind] = &huma.MediaType{Schema: schema}
		}
		route(mux, described, answered{op, answer})
	}
	of := func(t reflect.Type) *huma.Schema { return described.OpenAPI().Components.Schemas.Schema(t, true, "") }
	text, number, file := &huma.Schema{Type: huma.TypeString}, &huma.Schema{Type: huma.TypeInteger}, &huma.Schema{
		Type: huma.TypeString, Format: "binary"}
	at := &huma.Schema{Type: huma.TypeString, Format: "date-time"}
	step := queryParam("step", text, "STAGE/STEP or the step's id; default: all")
	search := []*huma.Param{queryParam("q", text, "what entries contain, upper and lower case of ASCII letters alike"),
		queryParam("limit", number, "default 1000, at most 10000"),
		queryParam("after", text, "the field next of an earlier answer")}
	search[0].Required = true
	found := map[string]*huma.Schema{"application/json": of(reflect.TypeFor[buildview.Matches]()), "text/event-stream": text}

	read("read-build-log", "/api/build/{build}/log", "The log of a build, or of a step", s.aboutBuild(s.readBuildLog),
		map[string]*huma.Schema{"application/json": of(reflect.TypeFor[[]buildview.LogEntry]()), "text/plain": text,
			"application/octet-stream": file},
		step, queryParam("after", text, "entries after this one, STEP:LOGID, or LOGID of one step"),
		queryParam("since", at, "entries then or later"), queryParam("before", at, "entries before"),
		queryParam("limit", number, "default 1000, at most 10000"), queryParam("tail", number, "only so many of the last entries of each step"),
		queryParam("text", text, "text without control characters, whatever Accept says"),
		queryParam("raw", text, "the bytes of the log of one step, or a Range"))
	read("search-build-log", "/api/build/{build}/log/search",
		"Entries of a build that contain a text, newest first, for at most ten seconds", s.aboutBuild(s.searchBuildLog), found,
		append(search, step)...)
	read("search-logs", "/api/log/search",
		"Entries of all builds of a project or a time that contain a text, newest first, for at most ten seconds", s.searchAll, found,
		append(search, queryParam("project", text, "this or since is needed"),
			queryParam("since", at, "of builds scheduled then or later"), queryParam("until", at, "of builds scheduled before"))...)
	read("follow-build", "/api/build/{build}/stream",
		"What a build has printed and made, then what comes: events log, status, artifact and end; Last-Event-ID resumes",
		s.aboutBuild(s.streamBuild), map[string]*huma.Schema{"text/event-stream": text}, step)
	read("get-build-artifact", "/api/build/{build}/artifact/{artifact}", "The bytes of an artifact, or a Range", s.aboutBuild(s.sendArtifact),
		map[string]*huma.Schema{"application/octet-stream": file})
}

// queryParam returns a parameter of the query.
func queryParam(name string, schema *huma.Schema, description string) *huma.Param {
	return &huma.Param{Name: name, In: "query", Schema: schema, Description: description}
}

// pathParameters returns the parameters in braces of a path.
func pathParameters(path string) (parameters []*huma.Param) {
	for part := range strings.SplitSeq(path, "/") {
		if name, ok := strings.CutPrefix(part, "{"); ok {
			parameters = append(parameters, &huma.Param{Name: strings.TrimSuffix(name, "}"), In: "path", Required: true,
				Schema: &huma.Schema{Type: huma.TypeString}})
		}
	}
	return parameters
}
