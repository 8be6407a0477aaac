package show

import (
	"fmt"
	"strings"

	"github.com/waybill-dev/waybill/internal/pipeline"
)

// joinWords returns a difference in words. A difference without words changes nothing that runs.
func joinWords(words []string) string {
	if len(words) == 0 {
		return "no change to what runs"
	}
	return strings.Join(words, "; ")
}

// effectWords returns the effect of an edit on one deployment: in the engine's words, else as counts of steps.
func effectWords(e pipeline.Effect) []string {
	if len(e.Words) > 0 {
		return e.Words
	}
	var parts []string
	add := func(steps []pipeline.StepKey, what string) {
		if len(steps) > 0 {
			parts = append(parts, fmt.Sprintf("%s %s (%s)", Count(len(steps), "step"), what, sample(steps)))
		}
	}
	add(e.Added, "added")
	add(e.Elided, "elided: never run here")
	add(e.Excluded, "left out")
	add(e.Removed, "removed")
	add(e.Drained, "drained: running work that ends without effect")
	if len(e.Drifting) > 0 {
		parts = append(parts, "will differ from their group: "+strings.Join(e.Drifting, ", "))
	}
	if len(parts) == 0 {
		return []string{"not touched"}
	}
	return parts
}

// sample names the first few steps.
func sample(steps []pipeline.StepKey) string {
	const most = 3
	var names []string
	for _, s := range steps[:min(most, len(steps))] {
		names = append(names, s.Target+" "+s.Event)
	}
	if len(steps) > most {
		names = append(names, "…")
	}
	return strings.Join(names, ", ")
}
