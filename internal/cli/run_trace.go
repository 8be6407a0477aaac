package cli

import (
	"context"
	"fmt"

	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/obs/otlp"
)

// traceBuild returns where the spans of a build go. Variables that may be meant for programs of the build do not fail it: with those
// that cannot be followed spans go nowhere, which is a warning.
func (a *app) traceBuild(ctx context.Context) *otlp.Tracing {
	tracing, err := otlp.Open(ctx, a.Environment, a.Version, a.errorLog())
	if err != nil {
		fmt.Fprintf(a.err, "waybill: warning: the build is not traced: %s\n", build.VisibleText([]byte(err.Error())))
		return otlp.Nowhere()
	}
	return tracing
}
