package ogc

import "strings"

// object is a JSON object that is being built.
type object = map[string]any

// describe returns the OpenAPI 3.0 document of the API.
func describe(version string) object {
	paths := object{}
	for _, o := range operations() {
		method, path, _ := strings.Cut(o.pattern, " ")
		path = strings.TrimSuffix(path, "{$}")
		if paths[path] == nil {
			paths[path] = object{}
		}
		paths[path].(object)[strings.ToLower(method)] = o.describe()
	}
	return object{
		"openapi": "3.0.3",
		"info": object{"title": "Waybill: processes and jobs", "version": version,
			"description": "OGC API – Processes, part 1, version 1.0, and Waybill's payload cache.",
			"license":     object{"name": "Apache-2.0", "url": "https://www.apache.org/licenses/LICENSE-2.0"}},
		"servers": []any{object{"url": "/"}},
		"paths":   paths,
		"components": object{
			"schemas": schemas(),
			"responses": object{"Problem": object{"description": "Why the request failed (RFC 7807).",
				"content": object{typeProblem: object{"schema": ref("exception")}, typeHTML: object{"schema": object{"type": "string"}}}}},
			"securitySchemes": object{"token": object{"type": "http", "scheme": "bearer",
				"description": "A token of this server. On the machine's own address only changes need one."}},
		},
	}
}
