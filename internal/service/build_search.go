package service

import (
	"context"

	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/service/buildview"
)

// SearchBuilds searches the logs of the builds that a query selects, the newest first.
func (s *Service) SearchBuilds(
	ctx context.Context,
	among buildview.Query,
	from buildview.SearchCursor,
	q buildview.SearchQuery,
	each func(buildview.LogEntry) error,
) (next string, err error) {
	limited, cancel := context.WithTimeoutCause(ctx, buildview.LongestSearch, buildview.ErrSearchTime)
	defer cancel()
	if from.Build != "" { // one that was removed has nothing to continue with
		if _, err := s.Build(limited, from.Build); fault.Is(err, fault.NotFound) {
			from.Build, from.Log = "", ""
		}
	}
	for {
		among.After = from.List
		list, err := s.Builds(limited, among)
		if err != nil {
			return buildview.TimedOut(ctx, limited, from.String(), err)
		}
		for _, b := range list.Builds {
			if from.Build != "" && b.ID != from.Build { // it began after the search
				continue
			}
			from.Build = b.ID
			if from.Log, err = s.searchOne(limited, b.ID, from.Log, &q, each); err != nil {
				return buildview.TimedOut(ctx, limited, from.String(), err)
			}
			if from.Log != "" {
				return from.String(), nil
			}
			from.Build = ""
		}
		if list.Next == "" {
			return "", nil
		}
		if from.List = list.Next; q.Limit == 0 {
			return from.String(), nil
		}
	}
}

// searchOne searches the logs of one build, and lowers the limit by what it has found.
func (s *Service) searchOne(
	ctx context.Context,
	id, after string,
	q *buildview.SearchQuery,
	each func(buildview.LogEntry) error,
) (next string, err error) {
	reader, state, err := s.BuildState(ctx, id)
	if fault.Is(err, fault.NotFound) || fault.Is(err, fault.Refused) { // removed just now
		return "", nil
	} else if err != nil {
		return after, err
	}
	all, err := buildview.ReadLogQuery(state, nil)
	if err != nil {
		return after, err
	}
	one := *q
	one.Steps = all.Steps
	if after != "" {
		if one.From, one.Before, err = buildview.ParseEntryPlace(after, []int{0, 1}); err != nil {
			return after, err
		}
	}
	return buildview.SearchBuild(ctx, reader, state, one, func(e buildview.LogEntry) error {
		q.Limit--
		return each(e)
	})
}
