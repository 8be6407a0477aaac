package build

import d "github.com/waybill-dev/waybill/internal/document"

// The field tables of the format. They drive the parser, the suggestions and Schema.

// FileName is the name of the file; nothing else is read.
const FileName = ".wharf-ci.yml"

// Root keys that do not name a stage.
const (
	keyInputs       = "inputs"
	keyEnvironments = "environments"
)

// stageTable returns the keys of a stage that do not name a step.
func stageTable() []d.Key {
	return []d.Key{
		{Name: keyEnvironments, Shape: d.Texts, Help: "The stage runs only when one of these environments is selected."},
		{Name: "runs-if", Shape: d.Text, Values: []string{"success", "fail", "always"}, Default: "success",
			Help: "What earlier stages must have come to: none failed, one failed, or either."},
		{Name: "run-if", Shape: d.Text, Values: []string{"success", "fail", "always"}, Help: "An older spelling of runs-if."},
		{Name: "fail-fast", Shape: d.Flag, Default: "true", Help: "A failed step cancels the other steps of its stage."},
	}
}

// stepTypes returns the step types, each with the table of its fields.
func stepTypes() []d.Key {
	return []d.Key{
		{Name: "container", Shape: d.Object, Help: "Runs commands in a container.", Keys: []d.Key{
			{Name: "image", Shape: d.Text, Required: true, Help: "The image to run; the process runner ignores it."},
			{Name: "cmds", Shape: d.Texts, Required: true, Help: "Commands; one shell process runs them all."},
			{Name: "os", Shape: d.Text, Values: []string{"linux", "windows"}, Default: "linux", Help: "The operating system of the node."},
			{Name: "shell", Shape: d.Text, Default: "/bin/sh", Help: "The shell; it gets -c and the commands."},
			{Name: "secretName", Shape: d.Text, Later: true},
			{Name: "serviceAccount", Shape: d.Text, Later: true},
			{Name: "certificatesMountPath", Shape: d.Text, Later: true},
		}},
		{Name: "docker", Shape: d.Object, Later: true},
		{Name: "helm", Shape: d.Object, Later: true},
		{Name: "helm-package", Shape: d.Object, Later: true},
		{Name: "kubectl", Shape: d.Object, Later: true},
		{Name: "nuget-package", Shape: d.Object, Later: true},
	}
}

// stepTable returns the keys of a step beside its type.
func stepTable() []d.Key {
	return []d.Key{
		{Name: "timeout", Shape: d.Duration, Help: "How long an attempt may take, such as 10m; none by default."},
		{Name: "artifacts", Shape: d.Entries, Help: "Files to keep: globs, in which ** spans folders.", Keys: []d.Key{
			{Name: "path", Shape: d.Text, Required: true, Help: "A glob from the root of the workspace."},
			{Name: "name", Shape: d.Text, Help: "The artifact's name; the file's path by default."},
			{Name: "archive", Shape: d.Flag, Default: "false", Help: "Pack all matching files into one .tar.gz."},
			{Name: "when", Shape: d.Text, Values: []string{"success", "fail", "always"}, Default: "success",
				Help: "The results of the step after which files are kept."},
		}},
		{Name: "test-results", Shape: d.Object, Keys: testTable(), Help: "Files that report about tests; they are read also when the step failed."},
		{Name: "needs", Shape: d.Texts, Later: true},
		{Name: "matrix", Shape: d.Object, Later: true},
		{Name: "retry", Shape: d.Object, Later: true},
		{Name: "cache", Shape: d.Objects, Later: true},
		{Name: "services", Shape: d.Objects, Later: true},
		{Name: "resources", Shape: d.Object, Later: true},
		{Name: "secrets", Shape: d.Texts, Later: true},
	}
}
