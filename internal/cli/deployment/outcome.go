package deployment

import (
	"context"

	"github.com/waybill-dev/waybill/internal/assembly"
	"github.com/waybill-dev/waybill/internal/cli/cmdline"
	"github.com/waybill-dev/waybill/internal/cli/show"
	"github.com/waybill-dev/waybill/internal/operation"
	"github.com/waybill-dev/waybill/internal/pipeline"
	"github.com/waybill-dev/waybill/internal/service"
)

// RetryOffer offers to retry a failed deployment. It returns the error as the command ends with it: unchanged, or shown.
type RetryOffer func(ctx context.Context, ref service.Ref, failed error) (again bool, err error)

// OfferRetry returns the offer of this command line. Without a terminal it is declined.
func OfferRetry(a *cmdline.App, s *assembly.Session) RetryOffer {
	return func(ctx context.Context, ref service.Ref, failed error) (again bool, err error) {
		if a.JSON() || !cmdline.OnTerminal(a.Out) || !a.CanAsk() {
			return false, failed
		}
		a.Report(failed)
		if !a.Confirm(ctx, "retry it now?") {
			return false, cmdline.Printed(failed)
		}
		if _, err := operation.CommandDeployment("retry").
			Call(ctx, s, operation.CommandInput{DeploymentPath: operation.PathOf(ref)}); err != nil {
			return false, err
		}
		return true, nil
	}
}

// Outcome prints how a deployment ended. again is true when the person at the terminal asked for a retry.
func Outcome(ctx context.Context, v service.DeploymentView, out show.Printer, retry RetryOffer) (again bool, err error) {
	switch v.State.Status {
	case pipeline.StatusFinished:
		out.Note("%s", show.Finished(v, out.Style, out.Columns))
		return false, nil
	case pipeline.StatusFailed:
		return retry(ctx, show.RefOf(v.Deployment), show.Failed(v))
	case pipeline.StatusActive:
		out.Note("%s", show.Halfway(v, out.Style))
		return false, nil
	default:
		return false, show.Stopped(v)
	}
}
