package assembly

import (
	"context"
	"encoding/json"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/journal"
	"github.com/waybill-dev/waybill/internal/pipeline"
	"github.com/waybill-dev/waybill/internal/service"
)

// Streams follows entries and events as they are recorded.
type Streams interface {
	Follow(ctx context.Context, q journal.EntryQuery, each func(pipeline.Entry) error) error
	FollowAction(ctx context.Context, id action.ID, after int, each func(action.Event) error, end func() error) error
}

// Processes offers the operations of OGC API – Processes that commands use.
type Processes interface {
	ListProcesses(ctx context.Context) ([]service.ProcessOffering, error)
	ShowProcess(ctx context.Context, id string) (service.ProcessOffering, error)
	RunProcess(ctx context.Context, id string, inputs json.RawMessage, by string) (service.AddedAction, error)
}
