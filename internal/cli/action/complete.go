package action

import (
	"context"
	"strings"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/assembly"
	"github.com/waybill-dev/waybill/internal/cli/cmdline"
	"github.com/waybill-dev/waybill/internal/cli/show"
	"github.com/waybill-dev/waybill/internal/operation"
)

func everyAction(action.Status) bool { return true }

// completeActions offers the newest actions of some statuses.
func completeActions(a *cmdline.App, wanted func(action.Status) bool) cmdline.Completer {
	return cmdline.FromLog(a, func(ctx context.Context, s *assembly.Session, _ []string) ([]string, error) {
		return actionIDs(ctx, s, wanted)
	})
}

func actionIDs(ctx context.Context, log operation.Caller, wanted func(action.Status) bool) ([]string, error) {
	found, err := operation.ListActions.Call(ctx, log, operation.ActionsInput{Limit: 10 * cmdline.ListLimit})
	var ids []string
	for _, x := range found {
		if wanted(x.Thread.Status) && len(ids) < cmdline.ListLimit {
			ids = append(ids, x.ID.String()+"\t"+show.ActionName(x)+" "+strings.ToLower(x.Thread.Status.String()))
		}
	}
	return ids, err
}
