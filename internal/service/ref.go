package service

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/pipeline"
)

// Ref names a deployment: greeter#7. Of a pipeline of Kubernetes it may have no number, and names the newest run.
type Ref struct {
	Pipeline string
	Number   int64
}

// ParseRef parses greeter#7 (also greeter/7, which needs no quotes in a shell).
func ParseRef(text string) (Ref, error) {
	name, number, found := strings.Cut(text, "#")
	if !found {
		name, number, found = strings.Cut(text, "/")
	}
	if !found && OfKubernetes(text) {
		return Ref{Pipeline: text}, nil
	}
	n, err := strconv.ParseInt(number, 10, 64)
	if !found || err != nil || n < 1 || name == "" {
		return Ref{}, fault.New(fault.Invalid, "%q is not a deployment: want one such as greeter#7", text)
	}
	return Ref{Pipeline: name, Number: n}, nil
}

func (r Ref) String() string {
	if r.Number == 0 && OfKubernetes(r.Pipeline) {
		return r.Pipeline
	}
	return fmt.Sprintf("%s#%d", r.Pipeline, r.Number)
}

// FullTarget returns a target with the pipeline's name in front.
func FullTarget(name, target string) string {
	if isWithin(target, name) {
		return target
	}
	return pipeline.Path(name, target)
}

// targetOrAll returns the full path of a target; that of the pipeline for "".
func targetOrAll(name, target string) string {
	if target == "" {
		return name
	}
	return FullTarget(name, target)
}
