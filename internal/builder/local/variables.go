package local

import (
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"

	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/file"
	"github.com/waybill-dev/waybill/internal/yamltree"
)

// buildChoice gathers the choices for a build, and every variable that it may use.
func (b *Builder) buildChoice(s *buildSource, flags Options, facts map[string]string, id string) (build.Choice, fault.Problems, error) {
	inputs, err := ReadInputs(flags.Inputs)
	if err != nil {
		return build.Choice{}, nil, err
	}
	paths := s.variableFiles(flags.File)
	for _, path := range paths {
		if err := s.stays(path); err != nil {
			return build.Choice{}, nil, err
		}
	}
	files, problems := b.readVariables(paths)
	if err := problems.Err(); err != nil {
		return build.Choice{}, nil, err
	}
	choice := flags.choice(facts, id, os.Environ(), files)
	choice.Inputs = inputs
	if choice.Tools, err = b.buildTools(); err != nil {
		return build.Choice{}, nil, err
	}
	return choice, problems.Warnings(), nil
}

// choice puts the variables in the order of their precedence. id is empty while it is not known. files are the files of variables.
func (f Options) choice(facts map[string]string, id string, environ []string, files build.Variables) build.Choice {
	given := map[string]string{}
	for _, pair := range environ {
		name, value, _ := strings.Cut(pair, "=")
		if name, ok := strings.CutPrefix(name, "WHARF_VAR_"); ok {
			given[name] = value
		}
	}
	maps.Copy(given, f.Launch.Variables)
	instance := "local"
	if f.Launch.On() {
		instance = f.Launch.Instance
	}
	project := map[string]string{}
	if f.ProjectID != "" {
		project["PROJECT_ID"], project["WHARF_PROJECT_ID"] = f.ProjectID, f.ProjectID
	}
	ref := map[string]string{}
	if id != "" {
		ref["BUILD_REF"] = id
	}
	configured := build.Texts("the configuration", map[string]string{"WHARF_INSTANCE": instance})
	var own build.Variables
	if f.Launch.On() { // several projects have their Secrets where it builds
		own = build.Variables{build.Texts("--project-id", project), build.Texts("the provisioner", given), configured}
	}
	variables := build.Variables{
		build.Texts("--build-id", ref),
		build.Texts("--project-id", project),
		build.Texts("WHARF_VAR_… of the environment", given),
	}
	variables = append(variables, files...)
	return build.Choice{
		Environment: f.Environment,
		Stages:      f.Stages,
		Steps:       f.Steps,
		Strict:      f.StrictVars,
		NoPush:      f.NoPush,
		Timeout:     f.Timeout,
		MaxParallel: f.MaxParallel,
		Project:     own,
		Variables: append(variables,
			configured,
			build.Texts("git", facts)),
	}
}

// variableFiles returns the files that may have variables for a build, the nearest first: beside the build's file and in
// every folder above it, then those of the user and of the machine. Above a snapshot there is nothing of the build.
func (s *buildSource) variableFiles(buildFile string) []string {
	var paths []string
	for dir := filepath.Dir(filepath.Join(s.root, filepath.FromSlash(buildFile))); ; dir = filepath.Dir(dir) {
		paths = append(paths, filepath.Join(dir, build.VarsFileName))
		if (s.unpacked || s.received) && dir == filepath.Clean(s.root) || dir == filepath.Dir(dir) {
			break
		}
	}
	shared := filepath.Join("iver-wharf", "wharf-cmd", "wharf-vars.yml")
	if user, err := os.UserConfigDir(); err == nil { // else the user has no folder for it
		paths = append(paths, filepath.Join(user, shared))
	}
	return append(paths, filepath.Join("/etc", shared))
}

// readVariables reads those of the files that are there. One of another user is ignored with a warning, since its owner
// could put commands into the build.
func (b *Builder) readVariables(paths []string) (build.Variables, fault.Problems) {
	var found build.Variables
	var problems fault.Problems
	for _, path := range paths {
		shown := b.Shorten(path)
		at := fault.Position{File: shown}
		data, err := b.ReadTrusted(path, yamltree.BuildFile)
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case errors.Is(err, file.ErrForeign):
			problems.Add(fault.Problem{Position: at, Code: "vars-foreign", Warning: true,
				Text: "the file belongs to another user, so its variables are not used"})
		case err != nil:
			problems.Add(fault.Problem{Position: at, Code: "vars-unreadable", Text: "read the variables: " + file.Plain(err).Error()})
		default:
			source, faults := parseVariables(shown, data)
			problems.Add(faults...)
			found = append(found, source)
		}
	}
	return found, problems
}

func parseVariables(shown string, data []byte) (build.Source, fault.Problems) {
	documents, problems := yamltree.ParseAll(shown, data, yamltree.BuildFile)
	if problems != nil {
		return build.Source{}, problems
	}
	return build.ParseVars(shown, documents)
}
