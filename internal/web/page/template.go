package page

import (
	"embed"
	"fmt"
	"html/template"
	"io/fs"
	"net/url"
)

//go:embed templates/*.html
var templateFiles embed.FS

// sharedTemplates parses the templates that pages share, with their functions.
func sharedTemplates() *template.Template {
	return template.Must(template.New("").Funcs(template.FuncMap{
		"args": args, "path": url.PathEscape, "plural": Plural, "below": BelowPipeline, "tone": ToneOf,
		"iso": iso, "clock": clock, "when": when, "moment": moment, "took": Took,
	}).ParseFS(templateFiles, "templates/*.html"))
}

// Template parses the files templates/NAME.html and returns the template with the first name. It
// may use the templates and functions that pages share, and functions of its own. It panics if that
// template does not exist or calls a function that does not.
func (s *Site) Template(files fs.FS, own template.FuncMap, names ...string) *template.Template {
	set := template.Must(s.parts.Clone()).Funcs(own)
	for _, name := range names {
		template.Must(set.ParseFS(files, "templates/"+name+".html"))
	}
	t := set.Lookup(names[0])
	if t == nil {
		panic(fmt.Sprintf("template %s not found in templates/%[1]s.html", names[0]))
	}
	return t
}

// args returns pairs of names and values as a map, to pass several values to a nested template.
func args(pairs ...any) (map[string]any, error) {
	if len(pairs)%2 != 0 {
		return nil, fmt.Errorf("args wants pairs, got %d values", len(pairs))
	}
	named := map[string]any{}
	for i := 0; i < len(pairs); i += 2 {
		named[fmt.Sprint(pairs[i])] = pairs[i+1]
	}
	return named, nil
}
