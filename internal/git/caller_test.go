package git

import (
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

func TestTheRepositoryOfTheCallerIsLeft(t *testing.T) {
	out, err := exec.Command("git", "rev-parse", "--local-env-vars").Output()
	if err != nil {
		t.Fatal(err)
	}
	var unknown []string
	for _, name := range strings.Fields(string(out)) {
		if name != "GIT_CONFIG_PARAMETERS" && name != "GIT_CONFIG_COUNT" && !slices.Contains(callerVariables(), name) {
			unknown = append(unknown, name)
		}
	}
	if len(unknown) > 0 {
		t.Errorf("git has more variables of a repository: %v", unknown)
	}
	for _, name := range callerVariables() {
		t.Setenv(name, "/elsewhere")
	}
	LeaveCaller()
	for _, name := range callerVariables() {
		if value, ok := os.LookupEnv(name); ok {
			t.Errorf("%s is still %q", name, value)
		}
	}
}
