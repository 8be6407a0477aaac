package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"k8s.io/kube-openapi/pkg/validation/spec"
	"sigs.k8s.io/kustomize/kyaml/fieldmeta"
	"sigs.k8s.io/kustomize/kyaml/kio"
	"sigs.k8s.io/kustomize/kyaml/kio/kioutil"
	"sigs.k8s.io/kustomize/kyaml/setters2"
	kyaml "sigs.k8s.io/kustomize/kyaml/yaml"

	"github.com/waybill-dev/waybill/internal/marker"
)

// markerFlags declares the flags of marker.
func markerFlags(f *flag.FlagSet, o *Options) {
	f.IntVar(&o.Files, "files", 2000, "files of the fleet")
	f.IntVar(&o.N, "n", 200, "files with a marker of the environment")
}

// fleetOf is the environment whose marked values the benches change.
var fleetOf = marker.Environment{Namespace: "apps", Pipeline: "podinfo", Name: "prod"}

// editMarkers measures the time of reading a fleet's files and writing those with a marker, beside the setters of kyaml behind a
// reader that parses only files with the word, as the original controller has them.
func editMarkers(_ context.Context, o Options) ([]Result, error) {
	dir, err := os.MkdirTemp("", "waybill-bench")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	if err := writeFleet(dir, o.Files, o.N); err != nil {
		return nil, err
	}
	name := fmt.Sprintf("%d files, %d marked", o.Files, o.N)
	own, rival := Result{Subject: name}, Result{Subject: "kyaml setters", Version: "kyaml 0.14.3"}
	for round := range o.Rounds + 1 {
		for i, edit := range []func(dir, revision string) (int, error){editFleet, setFleet} {
			began, used := time.Now(), ownCPU()
			changed, err := edit(dir, fmt.Sprintf("6.%d.%d", round+1, i))
			if err != nil || changed != o.N {
				return nil, fmt.Errorf("%d files were edited: %w", changed, err)
			}
			if result := []*Result{&own, &rival}[i]; round > 0 { // the first fills the caches
				round := measured(1, began)
				round.ClientCPU = float64(ownCPU()-used) / float64(time.Microsecond)
				result.Rounds = append(result.Rounds, round)
			}
		}
	}
	for _, r := range []*Result{&own, &rival} {
		r.Bench, r.Unit = "marker", "ms"
		r.summarizeBy(func(r Round) float64 { return r.Seconds * 1000 })
	}
	own.Ratio, own.Rival = own.Median/rival.Median, rival.Subject
	own.judge("at most 300 ms", own.Median <= 300)
	return []Result{own, rival}, nil
}

// writeFleet writes files of HelmReleases, of which the first ones are marked.
func writeFleet(dir string, files, marked int) error {
	for i := range files {
		mark := ""
		if i < marked {
			mark = fmt.Sprintf(` # {"$promotion": %q}`, fleetOf)
		}
		text := fmt.Sprintf("apiVersion: helm.toolkit.fluxcd.io/v2\nkind: HelmRelease\nmetadata:\n  name: app-%d\n  namespace: apps\nspec:\n"+
			"  interval: 10m\n  chart:\n    spec:\n      chart: podinfo\n      version: \"6.0.0\"%s\n      sourceRef:\n        kind: HelmRepository\n"+
			"        name: podinfo\n  values:\n    resources:\n%s", i, mark, strings.Repeat("    # a comment of an operator\n    - name: a\n      value: \"1\"\n", 15))
		path := filepath.Join(dir, fmt.Sprintf("group-%d/app-%d.yaml", i%100, i))
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)); err != nil {
			return err
		}
	}
	return nil
}

// editFleet edits the files by package marker.
func editFleet(dir, revision string) (changed int, err error) {
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil || !marker.Mentions(data, fleetOf) {
			return err
		}
		edited, _, err := marker.Edit(path, data, fleetOf, revision)
		if err != nil || bytes.Equal(edited, data) {
			return err
		}
		changed++
		return os.WriteFile(path, edited, 0o644)
	})
	return changed, err
}

// screened reads the files of a folder that contain the word of markers.
type screened string

func (dir screened) Read() (nodes []*kyaml.RNode, err error) {
	err = filepath.WalkDir(string(dir), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil || !bytes.Contains(data, []byte(marker.Keyword)) {
			return err
		}
		relative, err := filepath.Rel(string(dir), path)
		if err != nil {
			return err
		}
		reader := kio.ByteReader{Reader: bytes.NewReader(data), SetAnnotations: map[string]string{kioutil.PathAnnotation: relative}, PreserveSeqIndent: true}
		found, err := reader.Read()
		nodes = append(nodes, found...)
		return err
	})
	return nodes, err
}

// setFleet edits the files by the setters of kyaml.
func setFleet(dir, revision string) (changed int, err error) {
	fieldmeta.SetShortHandRef("$promotion")
	property := spec.StringProperty()
	property.Extensions = spec.Extensions{}
	property.Extensions.Add(setters2.K8sCliExtensionKey, map[string]any{"setter": map[string]string{"name": "version", "value": revision}})
	set := setters2.Set{Name: "version", SettersSchema: &spec.Schema{SchemaProps: spec.SchemaProps{
		Definitions: spec.Definitions{fieldmeta.SetterDefinitionPrefix + fleetOf.String(): *property}}}}
	err = kio.Pipeline{
		Inputs: []kio.Reader{screened(dir)},
		Filters: []kio.Filter{kio.FilterFunc(func(nodes []*kyaml.RNode) ([]*kyaml.RNode, error) {
			for _, node := range nodes {
				before := set.Count
				if _, err := set.Filter(node); err != nil {
					return nil, err
				}
				if set.Count > before {
					changed++
				}
			}
			return nodes, nil
		})},
		Outputs: []kio.Writer{kio.LocalPackageWriter{PackagePath: dir}},
	}.Execute()
	return changed, err
}
