package cmdline

import (
	"strings"

	"github.com/waybill-dev/waybill/internal/pipeline"
)

// FullTarget puts the pipeline's name before a target that lacks it.
func FullTarget(name, target string) string {
	target = strings.Trim(target, "/")
	if target == name || strings.HasPrefix(target, name+"/") {
		return target
	}
	return pipeline.Path(name, target)
}
