package build_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/yamltree"
)

// TestHostileFilesCostLittle does not run beside other tests: it measures what the whole process allocates. A process
// that reads such a file and prints its problems takes at most 64 MiB more than one that reads a small file.
func TestHostileFilesCostLittle(t *testing.T) {
	numbered := func(n int, format string) string {
		var out strings.Builder
		for i := range n {
			fmt.Fprintf(&out, format, i)
		}
		return out.String()
	}
	for name, file := range map[string]string{
		"stages":   numbered(49_000, "s%d: 1\n"),
		"steps":    "a:\n" + numbered(49_000, "  s%d: 1\n"),
		"unknown":  "a: {b: {container: {image: x, cmds: [y], " + numbered(24_000, "k%d: 1, ") + "}}}\n",
		"inputs":   "inputs:\n" + numbered(12_000, "- {name: a%d, type: x}\n") + "a: {b: {container: {image: x, cmds: [y]}}}\n",
		"services": "a:\n" + numbered(900, "  s%d: {container: {image: x, cmds: [y]}, services: ["+strings.Repeat("{name: 1}, ", 15)+"]}\n"),
		"needs": "a:\n" + numbered(900, "  s%d: {container: {image: x, cmds: [y]}}\n") + "  b: {needs: [" +
			numbered(45_000, "x%d, ") + "], container: {image: x, cmds: [y]}}\n",
		"environments": "environments:\n" + numbered(14_000, "  e%d: {}\n") +
			numbered(1900, "a%d: {environments: [e1, x], b: {container: {image: x, cmds: [y]}}}\n"),
		"secrets": "a: {b: {container: {image: x, cmds: [y]}, secrets: [" + strings.Repeat("'1', ", 40_000) + "]}}\n",
	} {
		t.Run(name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			root, problems := yamltree.Parse("f", []byte(file), yamltree.BuildFile)
			if problems.Err() == nil {
				_, problems = build.Parse(root)
			}
			size := len(problems.Error())
			runtime.ReadMemStats(&after)
			if size == 0 || size > 128<<10 {
				t.Errorf("the problems take %d bytes", size)
			}
			allocated := (after.TotalAlloc - before.TotalAlloc) >> 20
			t.Logf("%d MiB allocated, garbage included", allocated)
			if allocated > 64*detector {
				t.Errorf("%d MiB were allocated", allocated)
			}
		})
	}
}
