package cmdline

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/waybill-dev/waybill/internal/assembly"
	"github.com/waybill-dev/waybill/internal/builder/local"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/file"
	"github.com/waybill-dev/waybill/internal/git"
	"github.com/waybill-dev/waybill/internal/pipeline"
	"github.com/waybill-dev/waybill/internal/service"
	"github.com/waybill-dev/waybill/internal/yamltree"
)

// Project is a folder with a waybill.yaml.
type Project struct {
	Dir        string // absolute
	File       string // absolute path of waybill.yaml
	Source     string // content of the file
	Definition pipeline.Definition
	Warnings   fault.Problems
}

// Starter is the hint for a waybill.yaml that does not exist yet.
const Starter = `write one, such as:

    pipeline: hello
    service: {manager: process, exec: [./hello]}
    stages:
    - name: build
      build: .wharf-ci.yml
      artifacts: {any: dist/hello.tar.gz}
    - name: beta
      hosts: ["local://oak"]`

// Project reads the waybill.yaml of a folder; from the working directory itself it is searched for upwards too.
func (a *App) Project(arguments []string) (Project, error) {
	if len(arguments) == 0 {
		return a.readProject(filepath.Join(a.ProjectDir(a.Dir), assembly.ProjectFile))
	}
	dir := a.Path(arguments[0])
	info, err := os.Stat(dir)
	switch {
	case err != nil:
		return Project{}, fault.New(fault.Invalid, "read the folder %s: %w", arguments[0], file.Plain(err))
	case !info.IsDir():
		return Project{}, fault.New(fault.Invalid, "%s is a file: name the folder it is in", arguments[0])
	}
	return a.readProject(filepath.Join(dir, assembly.ProjectFile))
}

// readProject reads a definition from a file; every fault in it is reported at once.
func (a *App) readProject(path string) (Project, error) {
	if err := a.TrustFound(path); err != nil {
		return Project{}, err
	}
	source, err := file.Read(path, yamltree.PipelineFile)
	switch {
	case errors.Is(err, fs.ErrNotExist) && filepath.Base(path) == assembly.ProjectFile:
		return Project{}, fault.New(fault.Invalid, "%s not found in %s", assembly.ProjectFile, filepath.Dir(path)).WithHint("%s", Starter)
	case err != nil:
		return Project{}, fault.New(fault.Invalid, "read %s: %w", a.Shorten(path), file.Plain(err))
	}
	p := Project{Dir: filepath.Dir(path), File: path, Source: string(source)}
	definition, problems := parseDefinition(a.Shorten(path), source)
	if err := problems.Err(); err != nil {
		return p, err
	}
	p.Definition, p.Warnings = definition, problems.Warnings()
	return p, nil
}

// CheckBuilds reads the build files that the stages name: it returns their faults before anything is written.
func (a *App) CheckBuilds(ctx context.Context, p Project) error {
	here := local.Builder{Files: a.Place}
	for _, stage := range p.Definition.Stages {
		if stage.Build == nil || stage.Build.External {
			continue
		}
		if _, _, err := here.ReadFile(p.Dir, stage.Build.File, a.Shorten(filepath.Join(p.Dir, stage.Build.File)), false); err != nil {
			return err
		}
	}
	return a.CheckIgnored(ctx, p)
}

// CheckIgnored refuses a build file that git ignores: a revision is the files that git knows, so its build would lack it.
func (a *App) CheckIgnored(ctx context.Context, p Project) error {
	for _, stage := range p.Definition.Stages {
		if stage.Build == nil || stage.Build.External {
			continue
		}
		name := stage.Build.File
		ignored, err := git.Open(p.Dir).Ignored(ctx, name)
		if err != nil {
			return err
		}
		if ignored {
			shown := a.Shorten(filepath.Join(p.Dir, name))
			return fault.New(fault.Invalid, "git ignores %s, so no revision has it", shown).WithHint("git add -f %s", shown)
		}
	}
	return nil
}

// Tree labels the present content of the project's folder, without the home and the secrets of services.
func (p Project) Tree(ctx context.Context, h assembly.Home) (git.Tree, error) {
	exclude := []string{h.Dir, filepath.Join(p.Dir, assembly.HomeName)}
	for _, name := range p.SecretFiles() {
		exclude = append(exclude, filepath.Join(p.Dir, filepath.FromSlash(name)))
	}
	return git.Open(p.Dir, exclude...).Tree(ctx)
}

// PrintNotes warns about gaps in the files of a revision.
func (a *App) PrintNotes(notes []string) {
	for _, note := range notes {
		a.Printer().Warn("waybill: warning: %s", note)
	}
}

// Unchanged returns an error if the folder's content is not that of a label anymore, as when a file was saved while
// ship waited for an answer: the content stored under a label must be that of the label.
func (p Project) Unchanged(ctx context.Context, h assembly.Home, label string) error {
	now, err := p.Tree(ctx, h)
	if err != nil {
		return err
	}
	if now.Label != label {
		return fault.New(fault.Conflict, "the folder has changed meanwhile and is %s now", now.Label).WithHint("waybill ship again")
	}
	return nil
}

// SecretFiles returns the files of the project's folder from which services get secrets, behind links too: sorted slash paths.
func (p Project) SecretFiles() []string {
	dir, err := filepath.EvalSymlinks(p.Dir)
	if err != nil {
		return nil
	}
	var names []string
	for place := range p.Definition.EachHost() {
		for _, file := range p.Definition.ServiceOf(place.Stage, place.Group, place.Host).Secrets {
			if !filepath.IsAbs(file) {
				file = filepath.Join(p.Dir, file)
			}
			file, err := filepath.EvalSymlinks(file)
			if err != nil {
				continue // the deployment reports a secret that it cannot read
			}
			if name, err := filepath.Rel(dir, file); err == nil && filepath.IsLocal(name) {
				names = append(names, filepath.ToSlash(name))
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// SecretWarnings names the secrets in the project's folder that git does not ignore.
func (a *App) SecretWarnings(ctx context.Context, p Project) (warnings fault.Problems) {
	for _, name := range p.SecretFiles() {
		if ignored, err := git.Open(p.Dir).Ignored(ctx, name); err != nil || !ignored {
			warnings.Add(fault.Problem{Position: fault.Position{File: a.Shorten(p.File)}, Code: "secret-in-folder", Warning: true,
				Text: "the secret file " + name +
					" is in the project's folder and git does not ignore it; revisions leave it out: keep it elsewhere, or add it to .gitignore"})
		}
	}
	return warnings
}

// Proposal offers the project's definition.
func (p Project) Proposal(by string) service.Proposal {
	return service.Proposal{Definition: p.Definition, Source: p.Source, File: p.File, By: by}
}

// ProjectFrom reads the file that was named, or the waybill.yaml of this folder.
func (a *App) ProjectFrom(arguments []string) (Project, error) {
	if len(arguments) == 0 {
		return a.Project(nil)
	}
	path := a.Path(arguments[0])
	if isDirectory(path) {
		path = filepath.Join(path, assembly.ProjectFile)
	}
	return a.readProject(path)
}
