package definition

import (
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/admission"
	"github.com/waybill-dev/waybill/internal/cron"
	"github.com/waybill-dev/waybill/internal/document"
	"github.com/waybill-dev/waybill/internal/pipeline"
)

// warn reports settings that are allowed but seldom meant.
func (r *reader) warn(root *document.Node, d *pipeline.Definition) {
	last := -1
	for i := range d.Stages {
		s := &d.Stages[i]
		r.warnOfWindows(root, document.Index("stages", i), s)
		if s.Kind == pipeline.EnvironmentStage {
			last = -1 // it is judged by the health of its targets
		}
		if s.Kind != pipeline.HostStage {
			continue
		}
		last = i
		r.warnOfTimeouts(root, document.Index("stages", i), d, s)
		for j := range s.Groups {
			if g := &s.Groups[j]; len(g.Hosts) > 1 && takesAll(g.MaxParallel, len(g.Hosts)) {
				r.warnAt(Locate(root, document.Index(document.Index("stages", i)+".groups", j)+".maxParallel"),
					"maxParallel takes all %d hosts of group %q at once", len(g.Hosts), g.Name)
			}
		}
	}
	if last >= 0 && len(d.Stages[last].Test) == 0 && len(d.Stages[last].Chain) > 0 {
		r.warnAt(Locate(root, document.Index("stages", last)), "the last stage %q has no test", d.Stages[last].Name)
	}
}

// warnOfTimeouts reports attempts at deploy that end before their service has had its time to become ready.
func (r *reader) warnOfTimeouts(root *document.Node, path string, d *pipeline.Definition, s *pipeline.Stage) {
	within := d.ServiceOf(s, nil, nil).Ready.Within
	for i := range s.Groups {
		g := &s.Groups[i]
		within = max(within, d.ServiceOf(s, g, nil).Ready.Within)
		for k := range g.Hosts {
			within = max(within, d.ServiceOf(s, g, &g.Hosts[k]).Ready.Within)
		}
	}
	for _, step := range s.Chain {
		if step.Event != pipeline.HostDeployed {
			continue
		}
		if limit := step.Policy.AttemptTimeout; limit > 0 && limit <= within {
			r.warnAt(Locate(root, path+".retry.attemptTimeout"),
				"attemptTimeout of stage %q (%s) ends an attempt before a service has had its ready.within (%s)",
				s.Name, time.Duration(limit), time.Duration(within))
		}
		if limit := step.Policy.Deadline; limit > 0 && limit <= within {
			r.warnAt(Locate(root, path+".retry.deadline"),
				"deadline of stage %q (%s) ends its deploy before a service has had its ready.within (%s)",
				s.Name, time.Duration(limit), time.Duration(within))
		}
	}
}

// warnOfWindows reports windows that never open, and those that end before a stage that starts in them has baked: the
// next wave then waits for another window.
func (r *reader) warnOfWindows(root *document.Node, path string, s *pipeline.Stage) {
	var longest action.Duration
	if s.Bake != nil {
		longest = s.Bake.For
	}
	for i := range s.Groups {
		if w := s.Groups[i].Waves; w != nil && w.Bake != nil {
			longest = max(longest, w.Bake.For)
		}
	}
	if text, never := admission.NeverOpens(s.Windows); never {
		r.warnAt(Locate(root, document.Index(path+".windows", 0)), "stage %q may never start: %s", s.Name, text)
	}
	for i, w := range s.Windows {
		if w.Kind == cron.Allow && w.Duration < longest {
			r.warnAt(Locate(root, document.Index(path+".windows", i)),
				"a window of stage %q is shorter (%s) than its bake (%s)", s.Name, time.Duration(w.Duration), time.Duration(longest))
		}
	}
}

func takesAll(limit pipeline.Limit, hosts int) bool {
	if limit.Percent {
		return limit.N == 100
	}
	return limit.N >= hosts
}
