package page

import (
	"net/url"
	"strconv"

	"github.com/waybill-dev/waybill/internal/service"
)

// PipelinePath returns the address of a pipeline's page.
func PipelinePath(name string) string { return "/pipelines/" + url.PathEscape(name) }

// DeploymentPath returns the address of a deployment's page.
func DeploymentPath(ref service.Ref) string {
	return "/deployments/" + url.PathEscape(ref.Pipeline) + "/" + strconv.FormatInt(ref.Number, 10)
}
