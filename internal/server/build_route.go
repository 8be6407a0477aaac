package server

import (
	"net/http"
	"reflect"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/waybill-dev/waybill/internal/operation"
)

// buildRoutes are the places at which operations of builds are registered.
type buildRoutes struct {
	mux       *http.ServeMux
	described huma.API
}

// handleBuild registers an operation whose answer is a stream or a file: huma describes it and does not answer it. The answer
// has media types with schemas, and may be Out as JSON unless that is Nothing. The error of answer is sent as the answer.
func handleBuild[In, Out any](to buildRoutes, op operation.Operation[In, Out],
	answer func(http.ResponseWriter, *http.Request) error, others map[string]*huma.Schema) {
	o, content := describeOperation(operation.Description(op)), map[string]*huma.MediaType{}
	o.Parameters = append(pathParameters(o.Path), queryParameters(reflect.TypeFor[In]())...)
	for kind, schema := range others {
		content[kind] = &huma.MediaType{Schema: schema}
	}
	if out := reflect.TypeFor[Out](); out != reflect.TypeFor[operation.Nothing]() {
		content["application/json"] = &huma.MediaType{Schema: to.described.OpenAPI().Components.Schemas.Schema(out, true, "")}
	}
	problem := map[string]*huma.MediaType{"application/problem+json": {Schema: &huma.Schema{Type: huma.TypeObject}}}
	o.Responses = map[string]*huma.Response{"200": {Description: "OK", Content: content},
		"default": {Description: "Error", Content: problem}}
	to.described.OpenAPI().AddOperation(&o)
	to.mux.HandleFunc(o.Method+" "+o.Path, func(w http.ResponseWriter, r *http.Request) {
		err := checkQuery(r.URL.Query(), o.Parameters)
		if err == nil {
			err = answer(w, r)
		}
		if err != nil {
			WriteProblem(w, r, err)
		}
	})
}

// registerBuilds adds the operations whose answers are streams or files.
func (s *Server) registerBuilds(mux *http.ServeMux, described huma.API) {
	to, text := buildRoutes{mux, described}, &huma.Schema{Type: huma.TypeString}
	stream := map[string]*huma.Schema{"text/event-stream": text}
	file := &huma.Schema{Type: huma.TypeString, Format: "binary"}
	handleBuild(to, operation.ReadBuildLog, s.aboutBuild(s.readBuildLog),
		map[string]*huma.Schema{"text/plain": text, "application/octet-stream": file})
	handleBuild(to, operation.SearchBuildLog, s.aboutBuild(s.searchBuildLog), stream)
	handleBuild(to, operation.SearchLogs, s.searchAll, stream)
	handleBuild(to, operation.FollowBuild, s.aboutBuild(s.streamBuild), stream)
	handleBuild(to, operation.GetBuildArtifact, s.aboutBuild(s.sendArtifact), map[string]*huma.Schema{"application/octet-stream": file})
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

// queryParameters returns the parameters of the query of an input, whose handler reads them itself.
func queryParameters(input reflect.Type) (parameters []*huma.Param) {
	for _, field := range reflect.VisibleFields(input) {
		name := field.Tag.Get("query")
		if name == "" {
			continue
		}
		schema := &huma.Schema{Type: huma.TypeString}
		switch field.Type {
		case reflect.TypeFor[int]():
			schema.Type = huma.TypeInteger
		case reflect.TypeFor[time.Time]():
			schema.Format = "date-time"
		}
		parameters = append(parameters, &huma.Param{Name: name, In: "query", Schema: schema, Description: field.Tag.Get("doc"),
			Required: field.Tag.Get("required") != ""})
	}
	return parameters
}
