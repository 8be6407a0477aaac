package build_test

import (
	"maps"
	"testing"

	"github.com/google/go-cmp/cmp"

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
		"at another place": {before, before + "\nc: {n: " + step("n", "") + "}", []int{1, 2, 3},
			map[int]int{1: 1, 2: 2, 3: 3}},
		"not after a new stage": {before, "c: {n: " + step("n", "") + "}\n" + before, []int{1, 2, 3}, map[int]int{}},
		"not what runs always": {before + "\nc: {runs-if: always, n: " + step("n", "") + "}",
			before + "\nc: {runs-if: always, n: " + step("n", "") + "}", []int{1, 2, 3, 4}, map[int]int{1: 1, 2: 2, 3: 3}},
		"not what changed": {before,
			"a: {x: " + step("x", "") + ", y: " + step("yy", "needs: [x], ") + "}", []int{1, 2, 3}, map[int]int{1: 1}},
		"not what needs that": {before,
			"a: {x: " + step("xx", "") + ", y: " + step("y", "needs: [x], ") + "}", []int{1, 2, 3}, map[int]int{}},
		"not with other needs": {before,
			"a: {x: " + step("x", "") + ", y: " + step("y", "needs: [], ") + "}", []int{1, 2, 3}, map[int]int{1: 1}},
		"all with what deploys": {before + "\nc: {k: {kubectl: {file: f}}}",
			before + "\nc: {k: {kubectl: {file: f}}}", []int{1, 2, 3, 4}, map[int]int{1: 1, 2: 2, 3: 3, 4: 4}},
		"none with a deploy that runs again": {before + "\nc: {k: {kubectl: {file: f}}}",
			before + "\nc: {k: {kubectl: {file: f}}}", []int{1, 2, 3}, map[int]int{}},
		"none with a push that runs again": {before + "\nc: {k: {docker: {file: f, tag: t, destination: r/x}}}",
			before + "\nc: {k: {docker: {file: f, tag: t, destination: r/x}}}", []int{1, 2, 3}, map[int]int{}},
		"an image that is not pushed": {before +
			"\nc: {k: {docker: {file: f, tag: t, destination: r/x, push: false}}}",
			before + "\nc: {k: {docker: {file: f, tag: t, destination: r/x, push: false}}}", []int{1, 2, 3}, map[int]int{1: 1, 2: 2, 3: 3}},
		"not another stage's": {before, "c: {x: " + step("x", "") + "}", []int{1, 2, 3}, map[int]int{}},
		"not one with a password": {password + "a: {x: " + step("\"${p}\"", "") + "}",
			password + "a: {x: " + step("\"${p}\"", "") + "}", []int{1}, map[int]int{}},
		"not with another timeout": {before, "a: {x: " + step("x", "timeout: 1m, ") + "}", []int{1}, map[int]int{}},
		"of a plan without a step": {"environments: {e: {}}\na: {environments: [e], x: " + step("x", "") +
			"}", before, nil, map[int]int{}},
		"of a plan with fewer ones": {"a: {x: " + step("x", "") + "}", before, []int{1}, map[int]int{1: 1}},
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
			now := planOf(c.now, inputs)
			got := now.Reusable(planOf(c.before, inputs).Earlier(func(id int) string {
				if completed[id] {
					return ""
				}
				return "it failed"
			}))
			if !maps.Equal(got.Steps, c.want) {
				t.Errorf("reuses %v, want %v", got.Steps, c.want)
			}
			for _, step := range now.Steps {
				if _, reused := got.Steps[step.ID]; reused == (got.Again[step.ID] != "") {
					t.Errorf("%s: reused %v, and runs again because %q", step.Path(), reused, got.Again[step.ID])
				}
			}
		})
	}
}

// TestReasonsToRunAgain names the difference, and of a step's needs the first.
func TestReasonsToRunAgain(t *testing.T) {
	t.Parallel()
	planOf := func(file string) *build.Plan {
		parsed, problems := build.Parse(tree(t, file))
		if err := problems.Err(); err != nil {
			t.Fatal(err)
		}
		plan, problems := build.MakePlan(parsed, build.Choice{})
		if err := problems.Err(); err != nil {
			t.Fatal(err)
		}
		return plan
	}
	const step = "{container: {image: i, cmds: [x]}}"
	earlier := planOf("a: {same: " + step + ", changed: {container: {image: i, cmds: [y]}}, failed: " + step + ", old: " +
		step + "}\nz: {runs-if: always, z: " + step + "}").
		Earlier(func(id int) string { return map[int]string{3: "it failed"}[id] })
	earlier[3].Identity = "" // as an older version recorded it
	now := planOf("a: {same: " + step + ", changed: " + step + ", failed: " + step + ", old: " + step + ", new: " + step +
		", secret: {secrets: [S], container: {image: i, cmds: [x]}}}\nb: {waits: " + step + "}\nz: {runs-if: always, z: " + step + "}")
	earlier = append(earlier, build.Earlier{ID: 9, Stage: "a", Name: "secret", Identity: now.Identity(6)},
		build.Earlier{ID: 10, Stage: "b", Name: "waits", Identity: now.Identity(7)})
	got := now.Reusable(earlier)
	want := build.Reuse{Steps: map[int]int{1: 1}, Again: map[int]string{2: "its definition has changed", 3: "it failed",
		4: "its definition in the earlier build is not known",
		5: "the earlier build has no such step", 6: "it is given a password or a secret, which may be another one",
		7: "it waits for a/changed, which runs again", 8: "runs-if of its stage is always"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	published := planOf("a: {same: " + step + "}\nc: {k: {kubectl: {file: f}}}")
	got = published.Reusable(published.Earlier(func(id int) string { return map[int]string{2: "it failed"}[id] }))
	if len(got.Steps) != 0 || got.Again[2] != "it failed" ||
		got.Again[1] != "c/k runs again, and what pushes or deploys relies on no step that saw other files" {
		t.Errorf("%+v", got)
	}
}
