package cmdline

import (
	"errors"
	"os"

	"github.com/waybill-dev/waybill/internal/callback"
	"github.com/waybill-dev/waybill/internal/definition"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/pipeline"
	"github.com/waybill-dev/waybill/internal/yamltree"
)

// parseDefinition reads and judges a waybill.yaml. The problems may be warnings only.
func parseDefinition(file string, source []byte) (pipeline.Definition, fault.Problems) {
	root, problems := yamltree.Parse(file, source, yamltree.PipelineFile)
	if root == nil {
		return pipeline.Definition{}, problems
	}
	d, more := definition.Read(root, callback.CheckExpression)
	return d, append(problems, more...)
}

// ProblemsOf is the list of faults that an error is, if it is one.
func ProblemsOf(err error) (fault.Problems, bool) { return errors.AsType[fault.Problems](err) }

func isDirectory(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}
