package build_test

import (
	"strings"
	"testing"

	"github.com/waybill-dev/waybill/internal/build"
)

// TestAPasswordIsNotTheKeyOfACache: the key is the name of a file.
func TestAPasswordIsNotTheKeyOfACache(t *testing.T) {
	t.Parallel()
	for _, rule := range []string{"{key: \"k-${p}\", paths: [c]}", "{key: k, restore: [\"${p}\"], paths: [c]}"} {
		file, _ := build.Parse(tree(t, "inputs: [{name: p, type: password}]\ns: {a: {cache: ["+rule+"], "+ok[1:]+"}"))
		_, problems := build.MakePlan(file, build.Choice{Inputs: map[string]string{"p": "hunter22"}})
		if err := problems.Err(); err == nil || !strings.Contains(err.Error(), "s/a/cache[0]: the key of a cache") ||
			strings.Contains(err.Error(), "hunter") {
			t.Errorf("%s: %v", rule, err)
		}
	}
}

// TestAPasswordThatIsNotWhatItsFieldTakesIsAFault: the key of the cache is missing with the password, and there without.
func TestAPasswordThatIsNotWhatItsFieldTakesIsAFault(t *testing.T) {
	t.Parallel()
	file, _ := build.Parse(tree(t, "inputs: [{name: p, type: password}]\ns: {a: {cache: [{key: \"${p}\", paths: [c]}], "+ok[1:]+"}"))
	_, problems := build.MakePlan(file, build.Choice{Inputs: map[string]string{"p": "     "}})
	if err := problems.Err(); err == nil || !strings.Contains(err.Error(), `s/a/cache[0]/key: "key" must not be empty`) {
		t.Errorf("got %v", err)
	}
}
