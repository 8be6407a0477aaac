// Command measures prints figures that describe how the source is built, and the aim of each (`make measures`). The flag -measure
// selects one, and -list adds the things counted.
package main

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/waybill-dev/waybill/internal/archtest"
)

// measure counts one thing in the source.
type measure struct {
	name  string
	aim   string
	what  string
	count func(s *source) (figure, error)
}

// figure is the result of a measure.
type figure struct {
	value string
	list  []string // the things counted
}

func main() {
	one := flag.String("measure", "", "print only the measure with this `name`")
	list := flag.Bool("list", false, "list what each measure counts")
	root := flag.String("root", ".", "the `folder` of the repository")
	flag.Parse()
	if err := run(*root, *one, *list); err != nil {
		fmt.Fprintf(os.Stderr, "measures: %v\n", err)
		os.Exit(1)
	}
}

func run(root, one string, list bool) error {
	s, err := readSource(root)
	if err != nil {
		return err
	}
	all := measures()
	if one != "" {
		all = slices.DeleteFunc(all, func(m measure) bool { return m.name != one })
		if len(all) == 0 {
			return fmt.Errorf("measure %q not found", one)
		}
	}
	for _, m := range all {
		counted, err := m.count(s)
		if err != nil {
			return fmt.Errorf("measure %s: %w", m.name, err)
		}
		fmt.Printf("%-20s %7s  %-8s  %s\n", m.name, counted.value, m.aim, m.what)
		if list {
			for _, line := range counted.list {
				fmt.Println("    " + line)
			}
		}
	}
	return nil
}

func measures() []measure {
	all := []measure{
		{"loops-server", "≤ 10", "files of internal/server that call each other in loops", loopsOf("internal/server")},
		{"loops-service", "≤ 20", "files in such loops of internal/service", loopsOf("internal/service")},
		{"loops-cli", "≤ 10", "files in such loops of internal/cli", loopsOf("internal/cli")},
		{"largest-package", "≤ 60", "source files of the largest package", largestPackage},
		{"http-servers", "1", "http.Server{ outside tests", occurrences("http.Server{")},
		{"informers", "1", "NewSharedIndexInformer outside tests", occurrences("NewSharedIndexInformer(")},
		{"kube-argo", "0", "files of internal/kube, without runner, that name Argo", kubeNamesArgo},
		{"client", "≤ 20", "methods of the HTTP API's client", clientMethods},
		{"arrows-up", "0", "pairs of folders below internal that import each other", arrowsUp},
		{"interfaces", "≤ 12", "methods of the widest interface outside drivers", widestInterface},
		{"lines", "≤ 140126", "lines of the product: Go in api, cmd and internal, without tests and generated code", productLines},
		{"long-lines", "≤ 300", "lines of Go with more than 140 characters", longLines},
		{"parameters", "≤ 60", "functions with more than four parameters", parameters},
	}
	for _, pkg := range []string{"definition", "docker", "attempt"} {
		all = append(all, measure{"tests-" + pkg, "≥ 0.50", "lines of tests for each line of internal/" + pkg, testsOf("internal/" + pkg)})
	}
	for i, part := range archtest.Parts {
		name := "lines-" + strings.ReplaceAll(part.Name, " ", "-")
		all = append(all, measure{name, fmt.Sprintf("≤ %d", part.Ceiling), "lines of the part", linesOfPart(i)})
	}
	return all
}
