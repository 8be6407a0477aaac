package build_test

import (
	"maps"
	"testing"

	"github.com/waybill-dev/waybill/internal/build"
)

// TestReusable: a step is reused if it completed, is unchanged wherever it is now, and its needs are reused.
func TestReusable(t *testing.T) {
	t.Parallel()
	planOf := func(file string, inputs map[string]string) *build.Plan {
		parsed, problems := build.Parse(tree(t, file))
		if err := problems.Err(); err != nil {
			t.Fatal(err)
		}
		plan, problems := build.MakePlan(parsed, build.Choice{Inputs: inputs})
		if err := problems.Err(); err != nil {
			t.Fatal(err)
		}
		return plan
	}
	step := func(cmd, keys string) string { return "{" + keys + "container: {image: i, cmds: [" + cmd + "]}}" }
	before := "a: {x: " + step("x", "") + ", y: " + step("y", "needs: [x], ") + "}\nb: {z: " + step("z", "") + "}"
	password := "inputs: [{name: p, type: password}]\n"
	for name, c := range map[string]struct {
		before, now string
		completed   []int
		want        map[int]int
	}{
		"all": {before, before, []int{1, 2, 3}, map[int]int{1: 1, 2: 2, 3: 3}},
		"what completed, with what it waited for": {before, before, []int{1, 3}, map[int]int{1: 1}},
		"at another place":                        {before, before + "\nc: {n: " + step("n", "") + "}", []int{1, 2, 3}, map[int]int{1: 1, 2: 2, 3: 3}},
		"not behind a new stage":                  {before, "c: {n: " + step("n", "") + "}\n" + before, []int{1, 2, 3}, map[int]int{}},
		"not what runs always":                    {before + "\nc: {runs-if: always, n: " + step("n", "") + "}", before + "\nc: {runs-if: always, n: " + step("n", "") + "}", []int{1, 2, 3, 4}, map[int]int{1: 1, 2: 2, 3: 3}},
		"not what changed":                        {before, "a: {x: " + step("x", "") + ", y: " + step("yy", "needs: [x], ") + "}", []int{1, 2, 3}, map[int]int{1: 1}},
		"not what needs that":                     {before, "a: {x: " + step("xx", "") + ", y: " + step("y", "needs: [x], ") + "}", []int{1, 2, 3}, map[int]int{}},
		"not with other needs":                    {before, "a: {x: " + step("x", "") + ", y: " + step("y", "needs: [], ") + "}", []int{1, 2, 3}, map[int]int{1: 1}},
		"all with what deploys":                   {before + "\nc: {k: {kubectl: {file: f}}}", before + "\nc: {k: {kubectl: {file: f}}}", []int{1, 2, 3, 4}, map[int]int{1: 1, 2: 2, 3: 3, 4: 4}},
		"none with a deploy that runs again":      {before + "\nc: {k: {kubectl: {file: f}}}", before + "\nc: {k: {kubectl: {file: f}}}", []int{1, 2, 3}, nil},
		"none with a push that runs again":        {before + "\nc: {k: {docker: {file: f, tag: t, destination: r/x}}}", before + "\nc: {k: {docker: {file: f, tag: t, destination: r/x}}}", []int{1, 2, 3}, nil},
		"an image that is not pushed":             {before + "\nc: {k: {docker: {file: f, tag: t, destination: r/x, push: false}}}", before + "\nc: {k: {docker: {file: f, tag: t, destination: r/x, push: false}}}", []int{1, 2, 3}, map[int]int{1: 1, 2: 2, 3: 3}},
		"not another stage's":                     {before, "c: {x: " + step("x", "") + "}", []int{1, 2, 3}, map[int]int{}},
		"not one with a password":                 {password + "a: {x: " + step("\"${p}\"", "") + "}", password + "a: {x: " + step("\"${p}\"", "") + "}", []int{1}, map[int]int{}},
		"not with another timeout":                {before, "a: {x: " + step("x", "timeout: 1m, ") + "}", []int{1}, map[int]int{}},
		"of a plan without a step":                {"environments: {e: {}}\na: {environments: [e], x: " + step("x", "") + "}", before, nil, map[int]int{}},
		"of a plan with fewer ones":               {"a: {x: " + step("x", "") + "}", before, []int{1}, map[int]int{1: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			completed := map[int]bool{}
			for _, id := range c.completed {
				completed[id] = true
			}
			inputs := map[string]string{"p": "open sesame"}
			if name != "not one with a password" {
				inputs = nil
			}
			got := planOf(c.now, inputs).Reusable(planOf(c.before, inputs), func(id int) bool { return completed[id] })
			if !maps.Equal(got, c.want) {
				t.Errorf("reuses %v, want %v", got, c.want)
			}
		})
	}
}
