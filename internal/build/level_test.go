package build_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/yamltree"
)

func TestAKeyAtTheWrongLevelIsNamedWithItsOwn(t *testing.T) {
	t.Parallel()
	for file, want := range map[string]string{
		"s: {a: {container: {image: x, cmds: [x], timeout: 3m}}}":     `warning: s/a/container: unknown key "timeout"; it is a key of the step, beside container`,
		"s: {a: {container: {image: x, cmds: [x], runs-if: fail}}}":   `warning: s/a/container: unknown key "runs-if"; it is a key of the stage, beside its steps`,
		"s: {a: {container: {image: x, cmds: [x]}, shell: bash}}":     `s/a: "shell" is neither a step type nor a key of a step; it is a field of container`,
		"s: {a: {container: {image: x, cmds: [x]}, fail-fast: true}}": `s/a: "fail-fast" is neither a step type nor a key of a step; it is a key of the stage, beside its steps`,
		"s: {a: {container: {image: x, cmds: [x], imgae: x}}}":        `warning: s/a/container: unknown key "imgae" (did you mean "image"?)`,
	} {
		root, problems := yamltree.Parse("f", []byte(file), yamltree.BuildFile)
		if problems.Err() != nil {
			t.Fatal(problems)
		}
		_, problems = build.Parse(root)
		if len(problems) != 1 {
			t.Errorf("%s: %v, want one problem", file, problems)
			continue
		}
		if diff := cmp.Diff("f:"+want, cutPlace(problems[0].String())); diff != "" {
			t.Errorf("%s: %s", file, diff)
		}
	}
}

// cutPlace takes line and column out of a problem: f:1:7: s/a: … becomes f:s/a: ….
func cutPlace(text string) string {
	at := 0
	for colons := 0; colons < 3 && at < len(text); at++ {
		if text[at] == ':' {
			colons++
		}
	}
	return text[:2] + text[min(at+1, len(text)):]
}
