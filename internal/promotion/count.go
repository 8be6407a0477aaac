package promotion

import (
	"strings"
	"time"
)

// counts has the numbers of an environment's targets by their state relative to a wanted revision.
type counts struct {
	unknown     int
	ready       int       // at it
	fresh       int       // ready ones that a re-check does not merely keep
	progressing int       // at it
	failed      int       // at it
	elsewhere   int       // known, not at it
	newer       int       // those elsewhere that applied or attempted a newer revision
	rechecking  time.Time // end of the last re-check that keeps a class; zero: none does
}

// counting sets the view in which targets are counted.
type counting struct {
	want Revision
	// isReturn means that an older revision is to come back: a target that has left it, or is leaving it, is not at it,
	// although it may have it applied.
	isReturn bool
	reverts  bool                // no target is at it: what it has may be replaced yet
	isNewer  func(Revision) bool // nil: no revision is
	now      time.Time
	wake     *time.Time // becomes the end of the first re-check, if that is sooner
}

// count counts targets.
func (v *counting) count(targets []TargetID, seen map[TargetID]Seen) (c counts) {
	for _, id := range targets {
		s := seen[id]
		class, kept, until := s.At(v.now)
		if kept {
			*v.wake = sooner(*v.wake, until)
			if until.After(c.rechecking) {
				c.rechecking = until
			}
		}
		switch {
		case class == Unknown:
			c.unknown++
		case !v.isAt(s):
			c.elsewhere++
			if v.isNewer != nil && (v.isNewer(s.Applied) || v.isNewer(s.Attempted)) {
				c.newer++
			}
		case class == Failed:
			c.failed++
		case class == Ready && s.Applied == v.want:
			c.ready++
			if !kept {
				c.fresh++
			}
		default: // present, not proven
			c.progressing++
		}
	}
	return c
}

// isAt reports whether a target is at the wanted revision.
func (v *counting) isAt(s Seen) bool {
	switch {
	case v.want == "", v.reverts:
		return false
	case s.Attempted == v.want:
		return true
	case s.Applied != v.want:
		return false
	}
	return !v.isReturn || s.Attempted == "" || s.Class == Ready
}

// known returns the number of targets with a known state.
func (c counts) known() int {
	return c.ready + c.progressing + c.failed + c.elsewhere
}

// String returns the name of a target for people, such as leaf-eu/podinfo-prod: its cluster's name without the
// namespace, and its own namespace.
func (t TargetID) String() string {
	if t.Cluster == "" {
		return t.Namespace
	}
	return t.Cluster[strings.LastIndexByte(t.Cluster, '/')+1:] + "/" + t.Namespace
}
