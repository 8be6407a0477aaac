package local

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/file"
	"github.com/waybill-dev/waybill/internal/yamltree"
)

// planBuild reads the file and makes the plan.
func (b *Builder) planBuild(ctx context.Context, source *buildSource, flags Options, in *inbox) (planned job, err error) {
	if err := source.receive(ctx, flags.Launch, in); err != nil {
		return job{}, err
	}
	resumes, err := b.resumption(ctx, &flags, source, in)
	if err != nil {
		return job{}, err
	}
	if err := source.checkReceived(flags); err != nil {
		return job{}, err
	}
	file, err := b.readFileOf(source, flags)
	if err != nil {
		return job{}, err
	}
	facts, err := source.facts(ctx)
	if err != nil {
		return job{}, err
	}
	id, place, err := b.buildPlace(flags)
	if err != nil {
		return job{}, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, place.giveBack(id))
		}
	}()
	choice, warnings, err := b.buildChoice(source, flags, facts, id)
	if err != nil {
		return job{}, err
	}
	if err := b.passwords(ctx, file, &choice, source, flags); err != nil {
		return job{}, err
	}
	resumes.addNeeded(&choice, func() (*build.Plan, error) {
		plan, _, err := source.makePlan(ctx, file, choice, flags.Strict)
		return plan, err
	})
	plan, problems, err := source.makePlan(ctx, file, choice, flags.Strict)
	if plan != nil {
		b.Problems(append(warnings, problems.Warnings()...))
	}
	if err != nil {
		return job{}, err
	}
	if flags.DryRun.On() {
		b.warnOf(source.notes) // instead of the build's log
		return job{plan: plan, source: source, flags: flags}, nil
	}
	missing, err := b.giveSecrets(plan, flags)
	if err != nil {
		return job{}, err
	}
	if resumes != nil {
		resumes.choose(plan, source)
	}
	return job{id: id, place: place, plan: plan, source: source, facts: facts, flags: flags,
		given: flags.given(source, file, choice.Inputs), resumes: resumes, missing: missing}, nil
}

// warnOf prints the gaps of the files.
func (b *Builder) warnOf(notes []string) {
	for _, note := range notes {
		fmt.Fprintf(b.Err, "waybill: warning: %s\n", note)
	}
}

// makePlan plans a choice, files with variables included. The problems are warnings.
func (s *buildSource) makePlan(ctx context.Context, file *build.File, choice build.Choice,
	strict bool) (*build.Plan, fault.Problems, error) {
	plan, problems := build.MakePlan(file, choice)
	if strict {
		problems = build.Strict(problems) // a variable may decide the name of a field
	}
	if err := problems.Err(); err != nil {
		return nil, nil, err
	}
	return plan, problems, s.replaceInFiles(ctx, plan)
}

// readFileOf reads the file of the source.
func (b *Builder) readFileOf(source *buildSource, flags Options) (*build.File, error) {
	if err := source.stays(filepath.Join(source.root, filepath.FromSlash(flags.File))); err != nil {
		return nil, err
	}
	file, _, err := b.ReadFile(source.root, flags.File, source.shown(b, flags.File), flags.Strict)
	return file, err
}

// ReadFile reads and parses the build's file. The error has every fault; shown is the name of the file in it and in the
// warnings. strict makes unknown fields faults.
func (b *Builder) ReadFile(root, name, shown string, strict bool) (read *build.File, warnings fault.Problems, err error) {
	path := filepath.Join(root, filepath.FromSlash(name))
	if !filepath.IsLocal(filepath.FromSlash(name)) {
		return nil, nil, fault.New(fault.Invalid, "--file %s leaves the folder", name)
	}
	data, err := file.ReadRegular(path, yamltree.BuildFile)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil, b.noBuildFile(root, name)
	case err != nil:
		return nil, nil, fault.New(fault.Invalid, "read %s: %w", b.Shorten(path), file.Plain(err))
	}
	node, problems := yamltree.Parse(shown, data, yamltree.BuildFile)
	if problems.Err() != nil {
		return nil, nil, problems.Err()
	}
	read, problems = build.Parse(node)
	if strict || problems.Err() != nil { // an unknown field may be the one that is missing
		problems = build.Strict(problems)
	}
	if err := problems.Err(); err != nil {
		return nil, nil, err
	}
	return read, problems.Warnings(), nil
}

// noBuildFile returns the error for a missing build file, with the name of a similar one.
func (b *Builder) noBuildFile(root, name string) error {
	missing := fault.New(fault.Invalid, "%s not found in %s", name, root)
	if other := strings.TrimSuffix(name, ".yml") + ".yaml"; name == build.FileName {
		if _, err := os.Stat(filepath.Join(root, other)); err == nil {
			return missing.WithHint("mv %s %s   # only this name is read", other, name)
		}
	}
	for dir := filepath.Dir(root); name == build.FileName; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, name)); err == nil {
			if err := b.Trust(dir, filepath.Join(dir, name)); err != nil {
				break // its owner could have commands run
			}
			return missing.WithHint("waybill run %s   # a folder above has one", fault.Quote(b.Shorten(dir)))
		}
		if dir == filepath.Dir(dir) {
			break
		}
	}
	return missing.WithHint("%s", strings.TrimLeft(`waybill build init   # writes one, such as:

    build:
      binary:
        artifacts: [dist/*]
        container: {image: "golang:1.26", cmds: [go build -o dist/ .]}`, "\n"))
}
