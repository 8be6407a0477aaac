package simulation_test

import (
	"encoding/json"
	"path"
	"slices"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/pipeline"
)

// shops is the number of versions of the pipeline shop.
const shops = 8

// shop returns a version of the pipeline shop: a build, two hosts in lab, and in parallel behind it
// three hosts in east and one in west. Every other version is one edit away from version 0.
func shop(version int) pipeline.Definition {
	d := pipeline.Definition{Pipeline: "shop", Order: pipeline.Runnable, Service: pipeline.Service{Name: "shop",
		Manager: "none"}, Stages: []pipeline.Stage{
		{Name: "build", Kind: pipeline.BuildStage, Queue: pipeline.FIFO, OnFailure: pipeline.Release,
			Build: &pipeline.Build{File: ".wharf-ci.yml", Policy: policy, Artifacts: []pipeline.Artifact{{Label: "any", Path: "out/app"}}}},
		stage("lab", "build", 2, "ash", "birch"),
		stage("east", "lab", 2, "elm", "fir", "gum"),
		stage("west", "lab", 1, "yew"),
	}}
	switch version {
	case 1: // a host joins
		d.Stages[1] = stage("lab", "build", 2, "ash", "birch", "cedar")
	case 2: // a host leaves
		d.Stages[2] = stage("east", "lab", 2, "elm", "gum")
	case 3: // a step is introduced
		for i := range d.Stages[1:] {
			d.Stages[1+i].Chain = slices.Insert(slices.Clone(d.Stages[1+i].Chain), 2,
				pipeline.Step{Name: "warmed", Event: "host-warmed", Run: []string{"./warm"}, Policy: policy})
		}
	case 4: // a stage is inserted
		d.Stages[2].After, d.Stages[3].After = []string{"mid"}, []string{"mid"}
		d.Stages = slices.Insert(d.Stages, 2, stage("mid", "lab", 1, "oak"))
	case 5: // stages in another order
		d.Stages[3].After = []string{"east"}
	case 6: // a batch, another queue, other limits
		d.Batches = []pipeline.Batch{{Name: "live", Stages: []string{"lab"}, Queue: pipeline.FIFO}}
		d.Stages[2].Queue, d.Stages[2].Groups[0].MaxParallel, d.Stages[2].Groups[0].MaxFailed = pipeline.Latest, pipeline.Limit{
			N: 1}, pipeline.Limit{N: 1}
	case 7: // deployments side by side in each stage
		for i := range d.Stages[1:] {
			d.Stages[1+i].Queue = pipeline.NoQueue
		}
	}
	return d
}

var policy = action.Policy{Retries: 3, Initial: action.Duration(time.Second), Factor: 2, Max: action.Duration(time.Minute)}

func stage(name, after string, parallel int, hosts ...string) pipeline.Stage {
	g := pipeline.Group{Name: "all", MaxParallel: pipeline.Limit{N: parallel}}
	for _, h := range hosts {
		g.Hosts = append(g.Hosts, pipeline.Host{Name: h, URL: "local://" + h, Arch: "any"})
	}
	return pipeline.Stage{Name: name, Kind: pipeline.HostStage, After: []string{after}, Queue: pipeline.FIFO,
		OnFailure: pipeline.Release, Groups: []pipeline.Group{g},
		Chain: []pipeline.Step{
			{Name: pipeline.Replicate, Event: pipeline.HostReplicated, Policy: policy},
			{Name: pipeline.Deploy, Event: pipeline.HostDeployed, Policy: policy},
			{Name: pipeline.Test, Event: pipeline.HostTested, Policy: policy},
		}}
}

// detailEvent returns the event of the step that a note is about.
func detailEvent(row pipeline.Entry) string {
	var d pipeline.StepDetail
	_ = json.Unmarshal(row.Detail, &d) // what cannot be read names no step
	return d.Event
}

// addressOf returns the lane of a host of the shop, by its path.
func addressOf(target string) string { return "step/local://" + path.Base(target) }
