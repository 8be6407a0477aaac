package server

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"

	"github.com/danielgtaylor/huma/v2"

	"github.com/waybill-dev/waybill/internal/journal"
	"github.com/waybill-dev/waybill/internal/operation"
	"github.com/waybill-dev/waybill/internal/pipeline"
	"github.com/waybill-dev/waybill/internal/service"
)

func (a *api) registerLog() {
	handleStream(a, operation.ReadLog, a.entries, func(ctx context.Context, in *operation.LogInput) (*huma.StreamResponse, error) {
		q, err := in.Query()
		if err != nil {
			return nil, err
		}
		if wantsStream(in.Accept) {
			return a.followLog(ctx, q)
		}
		if q.Limit == 0 {
			return a.wholeLog(ctx, q)
		}
		entries, err := a.service.Entries(ctx, q)
		return jsonResponse(service.NonNil(entries), err)
	})
}

func (a *api) entries(ctx context.Context, in *operation.LogInput) ([]pipeline.Entry, error) {
	q, err := in.Query()
	if err != nil {
		return nil, err
	}
	return a.service.Entries(ctx, q)
}

// wholeLog answers with all entries that a query selects, of which it has one page in memory at a time.
func (a *api) wholeLog(ctx context.Context, q journal.EntryQuery) (*huma.StreamResponse, error) {
	page := q
	page.Limit, page.Newest = service.EntriesPage, false
	if first, err := a.service.Entries(ctx, page); err != nil || len(first) < service.EntriesPage {
		return jsonResponse(service.NonNil(first), err)
	}
	return &huma.StreamResponse{Body: func(to huma.Context) {
		to.SetHeader("Content-Type", "application/json")
		list := bufio.NewWriterSize(to.BodyWriter(), 64<<10)
		_ = list.WriteByte('[')
		entries := json.NewEncoder(list)
		separator := ""
		_, _, err := a.service.EachEntry(ctx, q, func(e pipeline.Entry) error {
			_, err := list.WriteString(separator)
			separator = ","
			return errors.Join(err, entries.Encode(e))
		})
		if err == nil { // else the list stays open, so that no client takes it for complete
			_ = list.WriteByte(']')
			err = list.Flush()
		}
		if err != nil {
			panic(http.ErrAbortHandler) // the status is sent: breaking the connection is the only way to report the error
		}
	}}, nil
}

func (a *api) followLog(ctx context.Context, q journal.EntryQuery) (*huma.StreamResponse, error) {
	if err := a.service.CheckPipeline(ctx, q.Pipeline); err != nil {
		return nil, err
	}
	return eventResponse(func(ctx context.Context, w *EventStream) error {
		return a.service.Follow(ctx, q, func(e pipeline.Entry) error {
			return w.JSON(strconv.FormatInt(e.Seq, 10), e.Class.String(), e)
		})
	}), nil
}
