package build_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/goldentest"
)

// choice is a plan's choice as the archives hold it.
type choice struct {
	Environment string            `json:"environment"`
	Stages      []string          `json:"stages"`
	Inputs      map[string]string `json:"inputs"`
	Variables   map[string]string `json:"variables"`
}

// TestPlans compares the plans of testdata/plan/*.txtar: .wharf-ci.yml, choice.json, and
// the plan or the problems that follow.
func TestPlans(t *testing.T) {
	t.Parallel()
	archives, err := filepath.Glob("testdata/plan/*.txtar")
	if err != nil || len(archives) == 0 {
		t.Fatal("no plans", err)
	}
	for _, path := range archives {
		t.Run(filepath.Base(path), func(t *testing.T) {
			t.Parallel()
			archive, err := txtar.ParseFile(path)
			if err != nil {
				t.Fatal(err)
			}
			got := planOf(t, archive)
			if goldentest.Rewrite() {
				archive.Files = append(archive.Files[:2:2], txtar.File{Name: "plan", Data: got})
				if err := os.WriteFile(path, txtar.Format(archive), 0o600); err != nil {
					t.Fatal(err)
				}
				return
			}
			if diff := cmp.Diff(string(archive.Files[2].Data), string(got)); diff != "" {
				t.Errorf("%s (-rewrite writes it):\n%s", path, diff)
			}
		})
	}
}

func planOf(t *testing.T, archive *txtar.Archive) []byte {
	t.Helper()
	var c choice
	if err := json.Unmarshal(archive.Files[1].Data, &c); err != nil {
		t.Fatal(err)
	}
	file, problems := build.Parse(tree(t, string(archive.Files[0].Data)))
	if problems.Err() != nil {
		t.Fatal(problems)
	}
	plan, problems := build.MakePlan(file, build.Choice{Environment: c.Environment, Stages: c.Stages, Inputs: c.Inputs, MaxParallel: 2,
		Variables: build.Variables{build.Texts("test", c.Variables)}})
	var out bytes.Buffer
	for _, p := range problems {
		out.WriteString(p.String() + "\n")
	}
	if plan != nil {
		text, err := json.MarshalIndent(plan, "", "  ")
		if err != nil {
			t.Fatal(err)
		}
		out.Write(append(text, '\n'))
	}
	return out.Bytes()
}

func TestDigestFollowsTheDefinitionOnly(t *testing.T) {
	t.Parallel()
	digest := func(file string, i int) string {
		parsed, _ := build.Parse(tree(t, file))
		plan, problems := build.MakePlan(parsed, build.Choice{})
		if problems.Err() != nil {
			t.Fatal(problems)
		}
		return plan.Steps[i].Digest
	}
	base := digest("s: {a: "+ok+"}", 0)
	if got := digest("r: {z: "+ok+"}\n\ns:\n\n  a: "+ok, 1); got != base {
		t.Error("a step that moved has another digest")
	}
	if got := digest("s: {a: {container: {image: i, cmds: [y]}}}", 0); got == base {
		t.Error("a step with another command has the same digest")
	}
}
