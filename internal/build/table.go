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

// keyCache is the key of a step by which it keeps files for later builds.
const keyCache = "cache"

// inputTable returns the keys of an input. Those of a known type are checked by its own table; the
// table of an unknown one, "", takes whatever any type has.
func inputTable(t InputType) []d.Key {
	types, fallback := inputTypes(), d.Anything
	switch t {
	case StringInput, PasswordInput:
		types, fallback = []string{string(t)}, d.Text
	case NumberInput:
		types, fallback = []string{string(t)}, d.Number
	case ChoiceInput:
		types, fallback = []string{string(t)}, d.Text
	}
	keys := []d.Key{
		{Name: "name", Shape: d.Text, Required: true,
			Help: "The variable that the input sets. Steps have its value as WAYBILL_INPUT_NAME, too, in upper case and with _ " +
				"for other characters."},
		{Name: "type", Shape: d.Text, Required: true, Values: types, Code: "input-type",
			Help: "string, password (never shown or stored), number, or choice."},
		{Name: "default", Shape: fallback, Required: t == ChoiceInput, Code: "input-default",
			Help: "The value when none is given; 0 for a number and empty otherwise if left out."},
	}
	switch t {
	case ChoiceInput:
		keys[2].Code, keys[2].Help = "choice-default", "One of the values, when none is given."
		fallthrough
	case "":
		keys = append(keys, d.Key{Name: "values", Shape: d.Texts, Required: t == ChoiceInput, Code: "values-missing",
			Help: "The accepted values."})
	}
	return keys
}

// stageTable returns the keys of a stage that do not name a step.
func stageTable() []d.Key {
	return []d.Key{
		{Name: keyEnvironments, Shape: d.Texts, Help: "The stage runs only when one of these environments is selected."},
		{Name: "runs-if", Shape: d.Text, Values: conditions(), Default: "success",
			Help: "What earlier stages must have come to: none failed, one failed, or either."},
		{Name: "run-if", Shape: d.Text, Values: conditions(), Help: "An older spelling of runs-if."},
		{Name: "fail-fast", Shape: d.Flag, Default: "true", Help: "A failed step cancels the other steps of its stage."},
	}
}

// stepTypes returns the step types, each with the table of its fields.
func stepTypes() []d.Key {
	return []d.Key{
		{Name: "container", Shape: d.Object, Keys: containerTable(), Help: "Runs commands in a container."},
		{Name: "docker", Shape: d.Object, Keys: dockerTable(), Help: "Builds an image with BuildKit and pushes it."},
		{Name: "helm", Shape: d.Object, Keys: helmTable(), Help: "Installs or upgrades a release of a Helm chart."},
		{Name: "helm-package", Shape: d.Object, Keys: helmPackageTable(), Help: "Packs a Helm chart and pushes it."},
		{Name: "kubectl", Shape: d.Object, Keys: kubectlTable(), Help: "Applies manifests to a cluster."},
		{Name: "nuget-package", Shape: d.Object, Keys: nugetTable(), Help: "Packs a .NET project and pushes the packages."},
	}
}

// containerTable returns the fields of container.
func containerTable() []d.Key {
	return []d.Key{
		{Name: "image", Shape: d.Text, Required: true, Help: "The image to run; the process runner ignores it."},
		{Name: "cmds", Shape: d.Texts, Required: true, Help: "Commands; one shell process runs them all."},
		{Name: "os", Shape: d.Text, Values: []string{"linux", "windows"}, Default: "linux", Code: "os-invalid",
			Help: "The operating system of the node."},
		{Name: "shell", Shape: d.Text, Default: "/bin/sh", Help: "The shell; it gets -c and the commands."},
		{Name: "secretName", Shape: d.Text,
			Help: "A Secret of the project, all of whose keys become environment variables. It needs the variable PROJECT_ID."},
		{Name: "serviceAccount", Shape: d.Text, Default: "default",
			Help: "The account of the cluster that the step runs as, with its token; other runners have none."},
		{Name: "certificatesMountPath", Shape: d.Text,
			Help: "Where the ConfigMap ca-certificates-config is mounted. WAYBILL_CERTIFICATES is the path too, and on a laptop " +
				"the folder that --certificates names."},
	}
}

// stepTable returns the keys of a step beside its type.
func stepTable() []d.Key {
	return []d.Key{
		{Name: "needs", Shape: d.Texts,
			Help: "Steps, as step or stage/step, for which it waits in place of all earlier stages; their artifacts are put into its workspace."},
		{Name: "retry", Shape: d.Object, Help: "When a failed attempt is followed by another one.", Keys: []d.Key{
			{Name: "attempts", Shape: d.Number, Required: true, Help: "Attempts in all, from 1 to 10."},
			{Name: "on", Shape: d.Texts, Values: []string{"failure", "timeout", "infrastructure"},
				Help: "The faults after which it is attempted again; all three by default."},
			{Name: "backoff", Shape: d.Duration, Default: "10s", Help: "Before the second attempt; doubled before each further one, up to an hour."},
		}},
		{Name: keyCache, Shape: d.Objects, Help: "Files that it leaves for later builds when it succeeds.", Keys: []d.Key{
			{Name: "key", Shape: d.Text, Required: true,
				Help: "The name of what is kept; ${hash:GLOB} in it is the digest of the files that match."},
			{Name: "paths", Shape: d.Texts, Required: true, Help: "Files, folders and globs of the workspace."},
			{Name: "restore", Shape: d.Texts, Help: "Beginnings of other keys, whose newest files are taken when the key has none."},
		}},
		{Name: "secrets", Shape: d.Texts,
			Help: "Secrets that it gets as environment variables of these names; they are neither stored nor shown."},
		{Name: keyMatrix, Shape: d.Object,
			Help: "Axes with lists of values: the step runs once for each combination, at most 256, with ${matrix.AXIS}. exclude " +
				"lists combinations to leave out."},
		{Name: "timeout", Shape: d.Duration, Help: "How long an attempt may take, such as 10m; none by default."},
		{Name: "artifacts", Shape: d.Entries, Help: "Files to keep: folders, and globs in which ** spans folders.", Keys: []d.Key{
			{Name: "path", Shape: d.Text, Required: true, Help: "A glob from the root of the workspace."},
			{Name: "name", Shape: d.Text, Help: "The artifact's name; the file's path by default."},
			{Name: "archive", Shape: d.Flag, Default: "false", Help: "Pack all matching files into one .tar.gz."},
			{Name: "when", Shape: d.Text, Values: conditions(), Default: "success",
				Help: "The results of the step after which files are kept."},
		}},
		{Name: "test-results", Shape: d.Object, Keys: testTable(),
			Help: "Files that report about tests; they are read also when the step failed."},
		{Name: "services", Shape: d.Objects, Keys: serviceTable(), Help: "Programs that run beside the step, such as a database."},
		{Name: "resources", Shape: d.Object, Keys: resourcesTable(), Help: "What it may use, in the quantities of Kubernetes."},
	}
}

// conditions lists the values of runs-if and keep-if.
func conditions() []string { return []string{string(Success), string(Fail), string(Always)} }
