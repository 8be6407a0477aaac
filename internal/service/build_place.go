package service

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/builds"
	"github.com/waybill-dev/waybill/internal/service/buildview"
)

// addPlaces adds facts of other tables and of the whole queue about builds: their passwords, and why those that have
// not ended wait.
func (s *Service) addPlaces(ctx context.Context, all ...*buildview.Summary) error {
	stored, active := map[builds.ID]*buildview.Summary{}, map[builds.ID]*buildview.Summary{}
	for _, b := range all {
		number, ok := buildview.NumberOf(b.ID)
		if !ok {
			continue
		}
		if stored[number] = b; !b.Ended() {
			active[number] = b
		}
	}
	if err := s.addPasswords(ctx, stored); err != nil || len(active) == 0 {
		return err
	}
	return s.addReasons(ctx, active)
}

func (s *Service) addPasswords(ctx context.Context, of map[builds.ID]*buildview.Summary) error {
	if len(of) == 0 {
		return nil
	}
	passwords, err := s.ledger.Builds.Passwords(ctx, slices.Collect(maps.Keys(of))...)
	for id, p := range passwords {
		for _, name := range p.Names {
			of[id].Params = append(of[id].Params, buildview.Param{Name: name, Value: buildview.HiddenValue, Hidden: true})
		}
		slices.SortFunc(of[id].Params, func(a, b buildview.Param) int { return strings.Compare(a.Name, b.Name) })
	}
	return err
}

// addReasons reports which builds are being canceled, and the place in the queue of each that waits for a worker.
func (s *Service) addReasons(ctx context.Context, active map[builds.ID]*buildview.Summary) error {
	queue, err := s.ledger.Builds.Queue(ctx)
	if err != nil {
		return err
	}
	for i, q := range queue {
		if b := active[q.ID]; b != nil && b.Status == build.Scheduling {
			b.Reason = strings.TrimSuffix(fmt.Sprintf("queued, %s of %d; %s", ordinal(i+1), len(queue), b.Reason), "; ")
		}
	}
	rows, err := s.ledger.Builds.List(ctx, builds.Query{IDs: slices.Collect(maps.Keys(active))})
	for i := range rows {
		if !rows[i].CancelRequestedAt.IsZero() {
			active[rows[i].ID].Reason = "is being canceled"
		}
	}
	return err
}

// ordinal returns 1st, 2nd, 3rd and so on.
func ordinal(n int) string {
	ending := "th"
	if tens := n / 10 % 10; tens != 1 {
		switch n % 10 {
		case 1:
			ending = "st"
		case 2:
			ending = "nd"
		case 3:
			ending = "rd"
		}
	}
	return strconv.Itoa(n) + ending
}
