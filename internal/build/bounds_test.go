package build_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/yamltree"
)

// TestStepsAreBounded: a matrix of a large step, and many steps, are one fault each.
func TestStepsAreBounded(t *testing.T) {
	t.Parallel()
	axis := strings.ReplaceAll(fmt.Sprintf("%d", make([]int, 256)), " ", ", ")
	for i := range 256 {
		axis = strings.Replace(axis, "0", strings.Repeat("a", 1+i%16)+strings.Repeat("b", 1+i/16), 1)
	}
	for want, file := range map[string]string{
		"f:1:9: a/x/matrix: the steps of the file with a matrix come to more than 200000 values": "a: {x: {matrix: {n: " +
			axis + "}, container: {image: i, cmds: [" + strings.Repeat("x, ", 1000) + "]}}}",
		"the file comes to more than 2000 steps": "a: {" +
			strings.Repeat("n: {matrix: {n: [1]}, container: {image: i, cmds: [x]}}, ", 2001) + "}",
	} {
		if strings.Contains(want, "2000 steps") {
			for i := range 2001 {
				file = strings.Replace(file, "n: {m", fmt.Sprintf("s%d: {m", i), 1)
			}
		}
		parsed, problems := build.Parse(tree(t, file))
		if problems.Err() == nil {
			_, problems = build.MakePlan(parsed, build.Choice{})
		}
		if !strings.HasSuffix(problems.Error(), want) || len(problems) != 1 {
			t.Errorf("%.200s; want %s", problems.Error(), want)
		}
	}
}

// TestTextsAreBoundedTogether: many texts that are each within their bound are refused where they are too many.
func TestTextsAreBoundedTogether(t *testing.T) {
	t.Parallel()
	parsed, problems := build.Parse(tree(t, "a: {x: {container: {image: i, cmds: [\n"+strings.Repeat("\"${v}${v}${v}${v}\",\n", 20)+"]}}}"))
	if err := problems.Err(); err != nil {
		t.Fatal(err)
	}
	_, problems = build.MakePlan(parsed,
		build.Choice{Variables: build.Variables{build.Texts("test", map[string]string{"v": strings.Repeat("x", 1<<20)})}})
	if diff := cmp.Diff(
		"f:9:1: a/x/container/cmds[7]: up to here the variables of the file grow to more than 33554432 bytes", problems.Error()); diff != "" {
		t.Error(diff)
	}
}

func FuzzParse(f *testing.F) {
	for _, test := range faults {
		f.Add([]byte(test.file))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		node, problems := yamltree.Parse("f", data, 1<<14)
		if node == nil || problems.Err() != nil {
			return
		}
		file, problems := build.Parse(node)
		wellFormed(t, problems)
		if problems.Err() != nil {
			return
		}
		plan, problems := build.MakePlan(file, build.Choice{Variables: build.Variables{build.Texts("test", shop())}})
		wellFormed(t, problems)
		if plan != nil {
			for _, step := range plan.Steps {
				wantNoOptions(t, step)
			}
		}
		if (plan == nil) != (problems.Err() != nil) {
			t.Errorf("plan %v beside %v", plan, problems)
		}
		if plan != nil {
			text, err := json.Marshal(plan)
			if err != nil || !bytes.Contains(text, []byte("steps")) {
				t.Error(err)
			}
		}
	})
}

func wellFormed(t *testing.T, problems fault.Problems) {
	t.Helper()
	for _, p := range problems {
		if p.Line < 1 || p.Code == "" || p.Text == "" {
			t.Errorf("problem without place, code or words: %+v", p)
		}
	}
}
