package server

import (
	"context"
	"strings"

	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/journal"
	"github.com/waybill-dev/waybill/internal/pipeline"
)

type targetsInput struct {
	PipelinePath
	Target string `query:"target" doc:"such as prod/east: it and those below it; left out: all"`
	After  string `query:"after" doc:"only targets behind this one: the target of the last one of the page before"`
	Limit  int    `query:"limit" minimum:"0" maximum:"1000" doc:"default 50"`
}

// resourceInput selects resources.
type resourceInput struct {
	Pipeline string `query:"pipeline"`
	Host     string `query:"host" doc:"address of a host"`
	After    string `query:"after" doc:"only resources behind this one: address and service of the last one of the page before, with a blank between"`
	Limit    int    `query:"limit" minimum:"0" maximum:"1000" doc:"default 1000"`
}

func (a *api) registerTargets() {
	handle(a, readOperation("list-targets", "/pipelines/{pipeline}/targets", "What is at each stage, group and host, and what is on its way there"),
		func(ctx context.Context, in *targetsInput) ([]TargetView, error) {
			return a.service.Targets(ctx, TargetQuery{Pipeline: in.Pipeline, Target: in.Target, After: in.After, Limit: in.Limit})
		})
	handle(a, readOperation("list-resources", "/resources", "What runs where, in the order of addresses and services"), a.resources)
}

func (a *api) resources(ctx context.Context, in *resourceInput) ([]journal.Resource, error) {
	q := journal.ResourceQuery{Pipeline: in.Pipeline, Address: in.Host, Limit: in.Limit}
	if in.After != "" {
		address, service, found := strings.Cut(in.After, " ")
		if !found {
			return nil, fault.New(fault.Invalid, "after: want an address and a service with a blank between, found %q", in.After)
		}
		q.After = pipeline.Resource{Address: address, Service: service}
	}
	return a.service.Resources(ctx, q)
}
