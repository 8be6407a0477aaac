package main

import (
	"fmt"
	"time"

	"github.com/waybill-dev/waybill/internal/pipeline"
)

// check compares everything that the engines say of their states.
func (w *world) check() bool {
	if !w.same("Seq", w.today.Seq(), w.then.Seq()) || !w.same("Current", w.today.Version(), w.then.Version()) {
		return false
	}
	w.same("Deployments(false)", w.today.Deployments(false), w.then.Deployments(false))
	w.same("Deployments(true)", w.today.Deployments(true), w.then.Deployments(true))
	later := w.now.Add(time.Duration(len(w.log)%7) * 3 * time.Hour)
	for i, n := range w.deployments {
		at := w.now
		if i == len(w.log)%len(w.deployments) && len(w.log)%3 == 0 {
			at = later
		}
		w.same(fmt.Sprintf("Explain(%d, %s)", n, at.Format(time.RFC3339)), w.today.Explain(n, at), w.then.Explain(n, at))
		if w.over() {
			return false
		}
	}
	today, okToday := w.today.Deployment(int64(len(w.log) % 9))
	then, okThen := w.then.Deployment(int64(len(w.log) % 9))
	w.same("Deployment", today, then)
	w.same("there is Deployment", okToday, okThen)
	w.ranks()
	w.places()
	return !w.over()
}

// ranks compares which deployment comes first. A number that no deployment has is asked for too.
func (w *world) ranks() {
	for _, a := range append(w.deployments, 99) {
		for _, b := range w.deployments {
			if today, then := w.today.Outranks(a, b), w.then.Outranks(a, b); today != then {
				w.same(fmt.Sprintf("Outranks(%d, %d)", a, b), today, then)
			}
		}
	}
}

// places compares what is current at each target, and what keeps starts back.
func (w *world) places() {
	for _, target := range w.targets {
		if today, then := w.today.CurrentAt(target), w.then.CurrentAt(target); today != then {
			w.same("CurrentAt("+target+")", today, then)
		}
	}
	today, textToday := w.today.Frozen(w.now)
	then, textThen := w.then.Frozen(w.now)
	w.same("Frozen", today, then)
	w.same("Frozen.Text", textToday, textThen)
	d, ok := w.today.Definition().(*pipeline.Definition)
	version := w.today.Version()
	if !ok || d == nil {
		return
	}
	for i := range d.Stages {
		if len(d.Stages[i].Windows) == 0 {
			continue
		}
		open, text := w.today.Opening(version, i, w.now)
		opened, words := w.then.Opening(version, i, w.now)
		w.same(fmt.Sprintf("Opening(%d)", i), fmt.Sprint(open, text), fmt.Sprint(opened, words))
	}
}

// targetsOf lists the paths of the pipeline and of its stages, groups, waves and hosts.
func targetsOf(d *pipeline.Definition) []string {
	list := []string{d.Pipeline}
	for _, s := range d.Stages {
		list = append(list, pipeline.Path(d.Pipeline, s.Name))
		for _, g := range s.Groups {
			group := pipeline.Path(d.Pipeline, s.Name, g.Name)
			list = append(list, group)
			if g.Waves != nil {
				list = append(list, group+"/wave-1", group+"/wave-2")
			}
			for _, h := range g.Hosts {
				list = append(list, pipeline.Path(group, h.Name))
			}
		}
	}
	return list
}
