package service

import (
	"context"
	"strings"

	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/service/buildview"
)

// errNoBuilds is the answer of an instance that does not know of builds.
var errNoBuilds = fault.New(fault.NotFound, "this instance has no builds").WithHint("ask one with the role api")

// Builds lists builds, newest first, with the deployments that they belong to.
func (s *Service) Builds(ctx context.Context, q buildview.Query) (buildview.List, error) {
	if s.builds == nil {
		return buildview.List{Builds: []buildview.Summary{}}, nil
	}
	list := buildview.List{}
	var err error
	if q.Status, err = buildStatus(q.Status); err != nil {
		return list, err
	}
	if list, err = s.builds.Builds(ctx, q); err != nil {
		return list, err
	}
	all := make([]*buildview.Summary, len(list.Builds))
	for i := range list.Builds {
		all[i] = &list.Builds[i]
	}
	return list, s.addPlaces(ctx, all...)
}

// buildStatus returns the status of builds that a text names in upper or lower case; "" for none.
func buildStatus(asked build.Status) (build.Status, error) {
	known := []string{string(build.Scheduling), string(build.Running), string(build.Completed), string(build.Failed), string(build.Canceled),
		string(build.TimedOut), string(build.Lost), string(build.Skipped)}
	for _, name := range known {
		if strings.EqualFold(name, string(asked)) {
			return build.Status(name), nil
		}
	}
	if asked == "" {
		return "", nil
	}
	return "", fault.New(fault.Invalid, "no build has the status %q: want one of %s", fault.Clip(string(asked)), strings.Join(known, ", "))
}

// Build opens a build for reading; fault.NotFound if it is not on this server.
func (s *Service) Build(ctx context.Context, id string) (buildview.Reader, error) {
	if s.builds == nil {
		return nil, errNoBuilds
	}
	return s.builds.OpenBuild(ctx, id)
}

// BuildState opens a build and reads its state.
func (s *Service) BuildState(ctx context.Context, id string) (buildview.Reader, buildview.State, error) {
	r, err := s.Build(ctx, id)
	if err != nil {
		return nil, buildview.State{}, err
	}
	state, err := r.State(ctx)
	if err == nil {
		err = s.addPlaces(ctx, &state.Summary)
	}
	return r, state, err
}
