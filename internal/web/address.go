package web

import (
	"net/url"
	"strconv"

	"github.com/waybill-dev/waybill/internal/server"
)

// pipelinePath returns the address of a pipeline's page.
func pipelinePath(name string) string { return "/pipelines/" + url.PathEscape(name) }

// deploymentPath returns the address of a deployment's page.
func deploymentPath(ref server.Ref) string {
	return "/deployments/" + url.PathEscape(ref.Pipeline) + "/" + strconv.FormatInt(ref.Number, 10)
}
