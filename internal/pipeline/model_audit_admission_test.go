package pipeline

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/waybill-dev/waybill/internal/admission"
	"github.com/waybill-dev/waybill/internal/cron"
)

// notAdmitted checks condition 8: where a stage, a group, a wave or a host starts, the pipeline is
// not frozen, a window is open, and enough people have approved.
func (u *auditor) notAdmitted(t *audited, n int) string {
	v := u.of(t)
	switch v.at[n].event {
	case StageStarted, GroupStarted, WaveStarted, HostStarted:
	default:
		return ""
	}
	stage := v.stage(v.at[n].stage)
	switch {
	case u.isFrozen():
		return "condition 8: the pipeline is frozen"
	case t.kind == KindRollback: // asks neither windows nor approvals
	case !isOpen(stage.Windows, u.now):
		return "condition 8: no window is open"
	case !u.isApproved(t, stage):
		return "condition 8: too few have approved"
	}
	return ""
}

func (u *auditor) isFrozen() bool {
	return u.freeze != nil && (u.freeze.Until.IsZero() || u.now.Before(u.freeze.Until))
}

// isOpen reads windows that start once a day, in UTC, which is what worlds have.
func isOpen(windows []admission.Window, now time.Time) bool {
	open := !slices.ContainsFunc(windows, func(w admission.Window) bool { return w.Kind == cron.Allow })
	denied := false
	for _, w := range windows {
		var minute, hour int
		if _, err := fmt.Sscanf(w.Schedule, "%d %d * * *", &minute, &hour); err != nil || w.Timezone != "UTC" {
			panic(fmt.Sprintf("a world has the window %v", w))
		}
		start := time.Date(now.Year(), now.Month(), now.Day(), hour, minute, 0, 0, time.UTC)
		if start.After(now) {
			start = start.AddDate(0, 0, -1)
		}
		covered := now.Sub(start) < time.Duration(w.Duration)
		open = open || w.Kind == cron.Allow && covered
		denied = denied || w.Kind == cron.Deny && covered
	}
	return open && !denied
}

// isApproved: the last word is an approval, and enough of those who may approve said yes last.
func (u *auditor) isApproved(t *audited, stage *Stage) bool {
	if stage.Approval == nil {
		return true
	}
	said := t.said["shop/"+stage.Name]
	last := map[string]bool{}
	for _, s := range said {
		last[s.by] = s.yes
	}
	count := 0
	for name, yes := range last {
		if yes && u.isAsked(t, stage, name) {
			count++
		}
	}
	return count >= stage.Approval.Count && said[len(said)-1].yes
}

// isAsked: the person is one of those who may approve.
func (u *auditor) isAsked(t *audited, stage *Stage, name string) bool {
	a := stage.Approval
	return (len(a.By) == 0 || slices.Contains(a.By, name)) && (a.Self || name != t.registrant && !u.uploads[t.revision][name])
}

// begins: some start in the stage is doable.
func (u *auditor) begins(t *audited, path string) bool {
	v := u.of(t)
	for n := range v.at {
		if v.at[n].stage == path && u.look(t).doable.has(n) && strings.HasSuffix(v.at[n].event, "-started") {
			return true
		}
	}
	return false
}

// judgeOpinion judges whether the engine accepts what a person says about a stage: an active
// deployment is before it, and the person is one of those asked.
func (u *auditor) judgeOpinion(t *audited, path, by string, yes, accepted bool) {
	stage := u.of(t).stage(path)
	want := t.status == StatusActive && u.begins(t, path) && t.kind != KindRollback // which asks for no approval
	if yes {
		want = want && u.isAsked(t, stage, by)
	} else {
		want = want && (len(stage.Approval.By) == 0 || slices.Contains(stage.Approval.By, by))
	}
	if want != accepted {
		u.breaks("Approvals: %s about %s of #%d is accepted: %v, want %v", by, path, t.number, accepted, want)
	}
}

// judgeFreeze judges that a freeze is set only where none is in force, and cleared only where one is.
func (u *auditor) judgeFreeze(set, accepted bool) {
	if accepted == (set == u.isFrozen()) {
		u.breaks("Freezes: set %v, frozen %v, accepted %v", set, u.isFrozen(), accepted)
	}
}
