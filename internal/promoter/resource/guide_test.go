package resource_test

import (
	"bytes"
	"os"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	clusters "github.com/waybill-dev/waybill/api/kube/gitops/v1alpha1"
	"github.com/waybill-dev/waybill/api/kube/v1alpha1"
	"github.com/waybill-dev/waybill/internal/marker"
	"github.com/waybill-dev/waybill/internal/promoter/resource"
	"github.com/waybill-dev/waybill/internal/promotion"
)

// guide is the examples of a page about moving from another program.
type guide struct {
	before, after []string // objects in YAML
	pipeline      resource.Pipeline
	files         []string // the repository's files with markers
}

// readGuide reads the examples of a page. Those after the heading "After" are Waybill's own.
func readGuide(t *testing.T, name string) (g guide) {
	t.Helper()
	page, err := os.ReadFile("../../../docs/" + name + ".md")
	if err != nil {
		t.Fatal(err)
	}
	before, after, found := strings.Cut(string(page), "### After\n")
	if !found {
		t.Fatalf("%s: no heading After", name)
	}
	g.before, g.after = blocksOf(before), blocksOf(after)
	for _, text := range g.after {
		g.read(t, text)
	}
	return g
}

// blocksOf returns the objects in the YAML blocks of a page.
func blocksOf(page string) (objects []string) {
	for _, block := range strings.Split(page, "```yaml\n")[1:] {
		block, _, _ = strings.Cut(block, "```")
		objects = append(objects, strings.Split(block, "---\n")...)
	}
	return objects
}

// read reads one of Waybill's own objects, whose fields must exist, or a file of the repository.
func (g *guide) read(t *testing.T, text string) {
	t.Helper()
	var err error
	switch obj := read(t, []byte(text)); obj.GetAPIVersion() {
	case v1alpha1.Group + "/" + v1alpha1.Version:
		err = yaml.UnmarshalStrict([]byte(text), &v1alpha1.Pipeline{})
		g.pipeline = parse(t, obj)
	case clusters.Group + "/" + clusters.Version:
		err = yaml.UnmarshalStrict([]byte(text), &clusters.GitopsCluster{})
	default:
		g.files = append(g.files, text)
	}
	if err != nil {
		t.Errorf("%s\n%v", text, err)
	}
}

// TestGuidesHaveValidExamples: the pages about moving from other programs show objects that Waybill accepts, and markers that it finds.
func TestGuidesHaveValidExamples(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]struct {
		kinds  []string // kinds of the other program, without repetitions
		policy string   // each environment's name, predecessors, who merges, soak
	}{
		"from-kargo": {[]string{"Warehouse", "Stage", "ProjectConfig"},
			"test [] people 0s; uat [test] waybill 1h0m0s; prod [uat] people 0s"},
		"from-gitops-promoter": {[]string{"PromotionStrategy", "TimedCommitStatus", "ScheduledCommitStatus"},
			"development [] people 1h0m0s; staging [development] waybill 4h0m0s; production [staging] people 0s"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := readGuide(t, name)
			var kinds []string
			for _, text := range g.before {
				kinds = append(kinds, read(t, []byte(text)).GetKind())
			}
			if kinds = slices.Compact(kinds); !slices.Equal(kinds, want.kinds) {
				t.Errorf("kinds of the example before: got %q, want %q", kinds, want.kinds)
			}
			if got := policyOf(g.pipeline.Spec); got != want.policy {
				t.Errorf("the pipeline: got %s, want %s", got, want.policy)
			}
			last := g.pipeline.Environments[len(g.pipeline.Environments)-1].Name
			of := marker.Environment{Namespace: g.pipeline.Namespace, Pipeline: g.pipeline.Name, Name: string(last)}
			for _, file := range g.files {
				edited, lines, err := marker.Edit("example.yaml", []byte(file), of, "9.9.9")
				if err != nil || len(lines) != 1 || !bytes.Contains(edited, []byte("newTag: 9.9.9 #")) {
					t.Errorf("promoting into %s: lines %v, error %v, file %s", last, lines, err, edited)
				}
			}
			if len(g.files) != 1 {
				t.Errorf("files with markers: got %d, want 1", len(g.files))
			}
		})
	}
}

func policyOf(spec promotion.Spec) string {
	var all []string
	for _, e := range spec.Environments {
		var before []string
		for _, name := range e.DependsOn {
			before = append(before, string(name))
		}
		who := "people"
		if e.AutoMerge != nil {
			who = "waybill"
		}
		all = append(all, string(e.Name)+" ["+strings.Join(before, " ")+"] "+who+" "+e.Soak.String())
	}
	return strings.Join(all, "; ")
}

// TestTheFirstHourHasAValidExample: the page shows objects that Waybill accepts.
func TestTheFirstHourHasAValidExample(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../../docs/promotion.md")
	if err != nil {
		t.Fatal(err)
	}
	_, hour, _ := strings.Cut(string(page), "## The first hour\n")
	_, block, _ := strings.Cut(hour, "```yaml\n")
	block, _, _ = strings.Cut(block, "   ```")
	var g guide
	for object := range strings.SplitSeq(strings.ReplaceAll(block, "\n   ", "\n"), "---\n") {
		g.read(t, strings.TrimPrefix(object, "   "))
	}
	if len(g.pipeline.Environments) != 2 || len(g.files) != 0 {
		t.Errorf("got %+v and files %q", g.pipeline, g.files)
	}
}
