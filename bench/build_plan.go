package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	yaml "go.yaml.in/yaml/v4"

	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/yamltree"
)

// planBuild measures the CPU time of reading and planning a .wharf-ci.yml of 300 lines, beside decoding it as YAML.
func planBuild(_ context.Context, o Options) ([]Result, error) {
	text := buildFile(300)
	planned, decoded := Result{Bench: "build-plan", Unit: "ms", Subject: "parse and plan"}, Result{Bench: "build-plan",
		Unit: "ms", Subject: "YAML decoding"}
	for range o.Rounds {
		for subject, once := range map[*Result]func([]byte) error{&planned: planOnce, &decoded: decodeOnce} { // in turn, in any order
			start, cpu := time.Now(), ownCPU()
			for range o.N {
				if err := once(text); err != nil {
					return nil, err
				}
			}
			round := measured(o.N, start)
			round.ClientCPU = float64((ownCPU() - cpu).Microseconds()) / float64(o.N)
			subject.Rounds = append(subject.Rounds, round)
		}
	}
	for _, r := range []*Result{&planned, &decoded} {
		r.summarizeBy(func(r Round) float64 { return r.ClientCPU / 1000 })
	}
	planned.Ratio, planned.Rival = planned.Median/decoded.Median, decoded.Subject
	planned.judge("at most 1 ms and 3 × "+decoded.Subject, planned.Ratio <= 3 && planned.Median <= 1)
	return []Result{planned, decoded}, nil
}

// buildFile returns a file of so many lines: steps with commands, variables, artifacts and test results.
func buildFile(lines int) []byte {
	var b strings.Builder
	b.WriteString("inputs:\n- {name: level, type: choice, values: [info, debug], default: info}\nenvironments:\n" +
		"  stage: {namespace: shop, replicas: 1}\n")
	for n := 0; strings.Count(b.String(), "\n")+9 <= lines; n++ {
		if n%4 == 0 {
			fmt.Fprintf(&b, "stage%d:\n", n/4)
		}
		fmt.Fprintf(&b, `  step%d:
    artifacts: ["out/*.zip"]
    test-results: {junit: ["out/*.xml"]}
    timeout: 10m
    container:
      image: golang:1.26
      cmds:
        - go vet ./part%d/... && echo ${level}
        - go test -run Test%d ./...
`, n, n, n)
	}
	return []byte(b.String())
}

func planOnce(text []byte) error {
	node, problems := yamltree.Parse("f", text, yamltree.BuildFile)
	if err := problems.Err(); err != nil {
		return err
	}
	file, problems := build.Parse(node)
	if err := problems.Err(); err != nil {
		return err
	}
	_, problems = build.MakePlan(file, build.Choice{Environment: "stage"})
	return problems.Err()
}

func decodeOnce(text []byte) error {
	var value any
	return yaml.Unmarshal(text, &value)
}
