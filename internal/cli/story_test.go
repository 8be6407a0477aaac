package cli

import (
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/waybill-dev/waybill/internal/cli/cmdline"
)

// TestEveryCommandHasAStory: a story runs the command, with success or in the background.
func TestEveryCommandHasAStory(t *testing.T) {
	t.Parallel()
	stories, err := filepath.Glob("testdata/*/*.txtar")
	if err != nil {
		t.Fatal(err)
	}
	succeeds := regexp.MustCompile(`^(waybill|exec|status 0) |^! exec .*&$`)
	var lines []string
	for _, path := range stories {
		story, err := txtar.ParseFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(story.Comment)) {
			if line = strings.TrimSpace(line); succeeds.MatchString(line) {
				lines = append(lines, line)
			}
		}
	}
	for _, c := range leaves(rootCommand(&cmdline.App{})) {
		runs := regexp.MustCompile(`\b` + c.CommandPath() + `( |$|')`)
		if !slices.ContainsFunc(lines, runs.MatchString) {
			t.Errorf("%s: no story in testdata/script runs it", c.CommandPath())
		}
	}
}
