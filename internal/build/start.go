package build

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/waybill-dev/waybill/internal/document"
)

// mostSteps bounds the images and the manifests of a starting file.
const mostSteps = 20

// plainPath is the paths that a starting file names as they are.
var plainPath = regexp.MustCompile(`^[A-Za-z0-9._/-]+$`)

// IsDockerfile reports whether a file is one by its name: Dockerfile, Dockerfile.dev or dev.Dockerfile.
func IsDockerfile(name string) bool {
	base := path.Base(name)
	return base == "Dockerfile" || strings.HasPrefix(base, "Dockerfile.") || strings.HasSuffix(base, ".Dockerfile")
}

// IsManifest reports whether a file is deployed by its place: deploy/*.yml or .yaml.
func IsManifest(name string) bool {
	return path.Dir(name) == "deploy" && (path.Ext(name) == ".yml" || path.Ext(name) == ".yaml")
}

// StartingFile returns a commented build file for a folder with these files, by slash-separated path, with the texts of those that
// StartingText reports. It is sound.
func StartingFile(files map[string]string) string {
	var used []tool
	names := startingFiles(files).sorted()
	for _, t := range append(tools(), makefile()) {
		if t.usedIn(names) && (t.step != makefile().step || len(used) == 0) {
			used = append(used, t)
		}
	}
	if len(used) == 0 {
		used = []tool{{"hello", "alpine:3", nil, always("echo replace this by what tests ${REPO_NAME}")}}
	}
	images, manifests := starting(names, IsDockerfile), starting(names, IsManifest)
	environments := "# environments:       # variables, chosen by --environment\n#   prod: {namespace: shop}\n"
	if len(manifests) > 0 {
		environments = "environments:         # variables, chosen by --environment\n  stage: {namespace: stage}\n"
	}
	var b strings.Builder
	b.WriteString("# yaml-language-server: $schema=" + SchemaFileName +
		"\n" + `# The build of this project. waybill run runs it here; waybill build lint checks it.
# Stages run one after another, the steps of a stage side by side.

# inputs:             # asked for when a build starts: waybill run -i level=debug
#   - {name: level, type: choice, values: [info, debug], default: info}
` + environments + `
test:                 # a stage: any name but inputs and environments
`)
	for _, t := range used {
		t.write(&b, files)
	}
	writeImages(&b, images)
	writeManifests(&b, manifests)
	return b.String()
}

// starting returns the files for which a starting file has a step, sorted.
func starting(names []string, wanted func(string) bool) (found []string) {
	for _, name := range slices.Sorted(slices.Values(names)) {
		if wanted(name) && plainPath.MatchString(name) && len(found) < mostSteps {
			found = append(found, name)
		}
	}
	return found
}

// writeImages writes a step for each Dockerfile.
func writeImages(b *strings.Builder, files []string) {
	if len(files) == 0 {
		return
	}
	b.WriteString("\nimage:\n")
	names := stepNamesOf(files, "image", func(file string) string {
		return strings.NewReplacer("Dockerfile", "").Replace(file)
	})
	for i, file := range files {
		b.WriteString("  " + names[i] + ":\n" +
			"    docker:\n" +
			"      file: " + file + "\n" +
			"      context: " + path.Dir(file) + "\n" +
			"      tag: latest\n" +
			"      destination: registry.example.com/${REPO_NAME}/" + strings.ToLower(names[i]) +
			"      # by default of REG_URL, REPO_GROUP and REPO_NAME\n" +
			"      push: false          # true once the registry is yours\n")
	}
}

// writeManifests writes a step for each manifest, which runs if an environment is chosen.
func writeManifests(b *strings.Builder, files []string) {
	if len(files) == 0 {
		return
	}
	b.WriteString("\ndeploy:\n  environments: [stage]    # it runs with --environment stage\n")
	names := stepNamesOf(files, "apply", func(file string) string {
		return strings.TrimSuffix(path.Base(file), path.Ext(file))
	})
	for i, file := range files {
		b.WriteString("  " + names[i] + ":\n" +
			"    kubectl:\n" +
			"      file: " + file + "      # in which ${namespace} and other variables are replaced\n" +
			"      namespace: ${namespace}\n")
	}
}

// stepNamesOf returns a step's name for each file, each once: the shortened path, with dashes.
func stepNamesOf(files []string, fallback string, short func(string) string) []string {
	names, reserved := make([]string, len(files)), document.Names(stageTable())
	seen := map[string]bool{}
	for i, file := range files {
		name := strings.Trim(strings.NewReplacer("/", "-", ".", "-", "_", "-").Replace(short(file)), "-")
		if name == "" {
			name = fallback
		}
		if document.Resolve(name) != document.String || slices.Contains(reserved, name) {
			name = fallback + "-" + name
		}
		for n := 2; seen[strings.ToLower(name)]; n++ {
			name = fmt.Sprintf("%s-%d", strings.TrimSuffix(name, fmt.Sprintf("-%d", n-1)), n)
		}
		seen[strings.ToLower(name)] = true
		names[i] = name
	}
	return names
}

// usedIn reports whether a folder with these names has a file of the tool.
func (t tool) usedIn(names []string) bool {
	return slices.ContainsFunc(names, func(name string) bool {
		return slices.ContainsFunc(t.files, func(glob string) bool {
			matched, _ := path.Match(glob, name) // the globs are sound
			return matched
		})
	})
}

// write writes the step of the tool.
func (t tool) write(b *strings.Builder, files startingFiles) {
	b.WriteString("  " + t.step + ":\n" +
		"    # timeout: 10m\n" +
		"    # artifacts: [\"dist/**\"]      # files to keep\n" +
		"    container:\n" +
		"      image: " + t.image + "      # ignored where steps run as processes of this computer\n" +
		"      cmds:\n" +
		"        - set -e               # a command that fails ends the step\n")
	for _, command := range t.commands(files) {
		b.WriteString("        - " + command + "\n")
	}
}
