package kube_test

import (
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"

	clusters "github.com/waybill-dev/waybill/api/kube/gitops/v1alpha1"
	pipelines "github.com/waybill-dev/waybill/api/kube/v1alpha1"
	"github.com/waybill-dev/waybill/internal/goldentest"
)

// reference writes tables of fields from the Go types and the definition, which it compares with them.
type reference struct {
	t       *testing.T
	out     strings.Builder
	pending []object
	done    map[reflect.Type]bool
}

// object is a struct, and the first place that has it.
type object struct {
	path   string
	of     reflect.Type
	schema node
}

// write writes a table for an object, and for each that it contains.
func (r *reference) write(o object) {
	r.pending = []object{o}
	for len(r.pending) > 0 {
		next := r.pending[0]
		r.pending = r.pending[1:]
		if r.done[next.of] {
			continue
		}
		r.done[next.of] = true
		r.table(next)
	}
}

func (r *reference) table(o object) {
	known, rest := map[string]bool{}, r.pending
	r.pending = nil
	defer func() { r.pending = append(r.pending, rest...) }() // parts of the object come first
	fmt.Fprintf(&r.out, "\n`%s`\n\n| field | value | meaning |\n|---|---|---|\n", o.path)
	for _, f := range fieldsOf(o.of) {
		known[f.name] = true
		schema, ok := fields(o.schema)[f.name]
		if !ok {
			r.t.Errorf("%s.%s: the definition lacks it; make generate writes it", o.path, f.name)
			continue
		}
		required := contains(texts(o.schema["required"]), f.name)
		if required == strings.Contains(f.tag, ",omitempty") {
			r.t.Errorf("%s.%s: required is %v in the definition", o.path, f.name, required)
		}
		name := "`" + f.name + "`"
		if required {
			name += " (required)"
		}
		fmt.Fprintf(&r.out, "| %s | %s | %s |\n", name, r.kind(f.of, schema, o.path+"."+f.name), meaning(schema, f.goName))
	}
	for name := range fields(o.schema) {
		if !known[name] {
			r.t.Errorf("%s.%s: the Go type lacks it; make generate removes it", o.path, name)
		}
	}
}

func contains(list []string, name string) bool {
	for _, item := range list {
		if item == name {
			return true
		}
	}
	return false
}

// meaning returns the description of a field on one line of a table, without the name with which it begins in Go.
func meaning(schema node, goName string) string {
	text := strings.Join(strings.Fields(fmt.Sprint(schema["description"])), " ")
	if rest, found := strings.CutPrefix(text, goName+" "); found && !strings.HasPrefix(rest, "of ") && !strings.HasPrefix(rest, "in ") {
		rest = strings.TrimPrefix(strings.TrimPrefix(rest, "is "), "are ")
		text = strings.ToUpper(rest[:1]) + rest[1:]
	}
	return strings.NewReplacer("|", `\|`, "<", "&lt;").Replace(text)
}

// field is a field of a struct.
type field struct {
	name, tag string
	goName    string
	of        reflect.Type
}

// fieldsOf returns the fields of a struct, with those that it embeds.
func fieldsOf(of reflect.Type) (list []field) {
	for f := range of.Fields() {
		tag := f.Tag.Get("json")
		name, options, _ := strings.Cut(tag, ",")
		if name == "" && strings.Contains(options, "inline") {
			list = append(list, fieldsOf(f.Type)...)
			continue
		}
		list = append(list, field{name, tag, f.Name, f.Type})
	}
	return list
}

// kind names the values of a field, and has its object documented.
func (r *reference) kind(of reflect.Type, schema node, path string) string {
	if of.Kind() == reflect.Pointer {
		of = of.Elem()
	}
	if values := texts(schema["enum"]); values != nil {
		return "`" + strings.Join(values, "`, `") + "`"
	}
	want, text := "string", "text"
	switch {
	case of == reflect.TypeFor[v1.Time]() || schema["format"] == "date-time":
		text = "time (RFC 3339)"
	case of == reflect.TypeFor[intstr.IntOrString]():
		want, text = "<nil>", "number or percentage"
	case of == reflect.TypeFor[runtime.RawExtension]():
		want, text = "object", "object"
	case of == reflect.TypeFor[pipelines.Duration]():
		text = "duration"
	case of == reflect.TypeFor[v1.Condition]():
		want, text = "object", "condition"
	case of.Kind() == reflect.Bool:
		want, text = "boolean", "`true`, `false`"
	case of.Kind() == reflect.Int || of.Kind() == reflect.Int64:
		want, text = "integer", "number"
	case of.Kind() == reflect.Slice:
		items, _ := schema["items"].(node)
		want, text = "array", "list of "+plural(r.kind(of.Elem(), items, path+"[]"))
	case of.Kind() == reflect.Map:
		values, _ := schema["additionalProperties"].(node)
		want, text = "object", "map of "+plural(r.kind(of.Elem(), values, path+".NAME"))
	case of.Kind() == reflect.Struct:
		want, text = "object", "object"
		r.pending = append(r.pending, object{path, of, schema})
	}
	if got := fmt.Sprint(schema["type"]); got != want {
		r.t.Errorf("%s: the definition has type %s, the Go type %s", path, got, want)
	}
	return text
}

func plural(kind string) string {
	if strings.HasPrefix(kind, "`") || strings.HasPrefix(kind, "list") {
		return kind
	}
	return kind + "s"
}

// TestPageDocumentsEveryField writes the tables of docs/promotion.md, from their heading on, with -rewrite.
func TestPageDocumentsEveryField(t *testing.T) {
	t.Parallel()
	r := &reference{t: t, done: map[reflect.Type]bool{}}
	r.out.WriteString("## All fields\n\nThese tables are made from the definitions (`api/kube`). An object that occurs in several places is described at the first.\n")
	r.out.WriteString("\n### Pipeline\n")
	definition := schema(parse(t, pipelines.Definition))
	r.write(object{"spec", reflect.TypeFor[pipelines.PipelineSpec](), fields(definition)["spec"]})
	r.write(object{"status", reflect.TypeFor[pipelines.PipelineStatus](), fields(definition)["status"]})
	r.out.WriteString("\n### GitopsCluster\n")
	definition = schema(parse(t, clusters.Definition))
	r.write(object{"spec", reflect.TypeFor[clusters.GitopsClusterSpec](), fields(definition)["spec"]})
	r.write(object{"status", reflect.TypeFor[clusters.GitopsClusterStatus](), fields(definition)["status"]})

	const page = "../../docs/promotion.md"
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	before, _, found := strings.Cut(string(text), "## All fields\n")
	if !found {
		before += "\n"
	}
	goldentest.Compare(t, page, before+r.out.String())
}
