package build

import (
	"regexp"
	"strings"

	d "github.com/waybill-dev/waybill/internal/document"
	"github.com/waybill-dev/waybill/internal/fault"
)

// kubectlAction is the commands of kubectl, one word.
var kubectlAction = regexp.MustCompile(`^[a-z]([-a-z]*[a-z])?$`)

// kubectlTable returns the fields of kubectl.
func kubectlTable() []d.Key {
	return []d.Key{
		{Name: "file", Shape: d.Text, Help: "A manifest, or a folder of manifests. Variables in it are replaced. This or files must be there."},
		{Name: "files", Shape: d.Texts, Help: "Several; file comes after these."},
		{Name: "namespace", Shape: d.Text, Default: "that of the manifest, else of the cluster's context", Help: "The namespace."},
		{Name: "action", Shape: d.Text, Default: "apply", Help: "What kubectl does with the files: apply, create, replace, delete and the like."},
		{Name: "force", Shape: d.Flag, Default: "false", Help: "Delete and create again what cannot be changed."},
		clusterKey(),
	}
}

// kubectlSchema completes the schema of kubectl by rules that its table cannot express.
func kubectlSchema(schema map[string]any) {
	properties := schema["properties"].(map[string]any)
	properties["file"].(map[string]any)["minLength"] = 1
	properties["files"].(map[string]any)["minItems"] = 1
	schema["anyOf"] = []any{map[string]any{"required": []string{"file"}}, map[string]any{"required": []string{"files"}}}
}

// kubectl returns the command that applies manifests.
func (f fields) kubectl() Spec {
	files := f.manifests()
	f.matches("namespace", "name-invalid", namespace, "the name of a namespace: at most 63 lower-case letters, digits and dashes")
	f.matches("action", "action-invalid", kubectlAction, "a command of kubectl, such as apply")
	action := f.text("action", "")
	if action == "" {
		action = "apply"
	}
	spec := Spec{Image: f.tools.Kubectl, OS: "linux", ServiceAccount: f.tools.Account, Token: true, Files: files,
		Argv: []string{"kubectl", action}, Summary: action}
	if ns := f.text("namespace", ""); ns != "" {
		spec.Argv = append(spec.Argv, "--namespace", ns)
		spec.Summary += " -n " + ns
	}
	for _, file := range files {
		spec.Argv = append(spec.Argv, "--filename", file)
	}
	spec.Summary += " " + strings.Join(files, " ")
	if f.flag("force", false) {
		spec.Argv = append(spec.Argv, "--force")
	}
	f.cluster(&spec)
	return spec
}

// manifests returns the paths of files, then that of file.
func (f fields) manifests() []string {
	for _, name := range []string{"files", "file"} {
		if n := f.node.Get(name); n != nil && (n.Kind == d.List && len(n.Items) == 0 || n.Kind == d.String && n.Text == "") {
			f.refuse(name, "field-empty", "%q must not be empty", name)
		}
	}
	if f.node.Get("file") == nil && f.node.Get("files") == nil && !f.openKeys[f.scope] {
		f.Problems.Add(fault.Problem{Position: f.at, Code: "field-missing", Scope: f.scope, Text: `the field "file" or "files" is missing`})
	}
	files := f.files("files")
	if n := f.settled("file"); n != nil && n.Text != "" {
		f.toolPath(n, f.Join(f.scope, "file"))
	}
	if file := f.text("file", ""); file != "" {
		files = append(files, cleanPath(file))
	}
	return files
}
