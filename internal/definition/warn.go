package definition

import (
	"github.com/waybill-dev/waybill/internal/document"
	"github.com/waybill-dev/waybill/internal/pipeline"
)

// warn reports what is allowed but seldom meant.
func (r *reader) warn(root *document.Node, d *pipeline.Definition) {
	last := -1
	for i := range d.Stages {
		s := &d.Stages[i]
		if s.Kind != pipeline.HostStage {
			continue
		}
		last = i
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

func takesAll(limit pipeline.Limit, hosts int) bool {
	if limit.Percent {
		return limit.N == 100
	}
	return limit.N >= hosts
}
