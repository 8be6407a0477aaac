package pipeline

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/waybill-dev/waybill/internal/admission"
	"github.com/waybill-dev/waybill/internal/cron"
)

// opinion is what a person said about a stage of a deployment.
type opinion struct {
	by     string
	yes    bool
	groups []string // that the person was in
}

// isAmong: the stage asks everybody, or the person by name, or one of the groups.
func isAmong(asked []string, by string, groups []string) bool {
	among := len(asked) == 0
	for _, name := range asked {
		among = among || name == by && !strings.HasPrefix(name, "group:")
		for _, group := range groups {
			among = among || name == "group:"+group
		}
	}
	return among
}

// admitted checks condition 8: where a stage, a group, a wave or a host starts, there is no freeze, a window is open, and enough
// people agree.
func (o *oracle) admitted(t *oracleDeployment, s stepName) verdict {
	if !slices.Contains([]string{StageStarted, GroupStarted, WaveStarted, HostStarted}, s.event) {
		return verdict{}
	}
	stage, _, _, _ := o.graph(t).d.Find(strings.Join(strings.Split(s.target, "/")[:2], "/"))
	switch {
	case o.frozen(o.now):
		return verdict{why: isFrozen}
	case t.rollback != nil:
		return verdict{}
	case !o.opened(stage.Windows, o.now):
		return verdict{why: isClosed}
	case stage.Approval != nil && !o.agreed(t, stage):
		return verdict{why: notApproved}
	}
	return verdict{}
}

// frozen: the last freeze was not cleared, and has not ended by itself.
func (o *oracle) frozen(now time.Time) bool {
	if o.freeze == nil {
		return false
	}
	return o.freeze.Until.IsZero() || now.Before(o.freeze.Until)
}

// opened: no Deny covers now; and there is no Allow, or one covers now.
func (o *oracle) opened(windows []admission.Window, now time.Time) bool {
	allows, allowed := false, false
	for _, w := range windows {
		covers := o.covers(w, now)
		if w.Kind == cron.Deny && covers {
			return false
		}
		allows = allows || w.Kind == cron.Allow
		allowed = allowed || w.Kind == cron.Allow && covers
	}
	return allowed || !allows
}

// covers: one of the minutes up to now is a start, and now is less than the duration after it.
func (o *oracle) covers(w admission.Window, now time.Time) bool {
	key := fmt.Sprint(w, now)
	if known, ok := o.covered[key]; ok {
		return known
	}
	starts, err := cron.Parse(w.Schedule)
	if err != nil {
		panic(err)
	}
	zone, err := time.LoadLocation(w.Timezone)
	if err != nil {
		panic(err)
	}
	found := false
	for at := now.Truncate(time.Minute); now.Sub(at) < time.Duration(w.Duration); at = at.Add(-time.Minute) {
		found = found || starts.Next(at.Add(-time.Nanosecond), zone).Equal(at)
	}
	o.covered[key] = found
	return found
}

// agreed: the last word about the stage is no rejection, and of the people who may agree, enough said yes last.
func (o *oracle) agreed(t *oracleDeployment, stage *Stage) bool {
	said := t.said[Path(o.pipeline, stage.Name)]
	last := map[string]opinion{}
	for _, s := range said {
		last[s.by] = s
	}
	count := 0
	for by, s := range last {
		if s.yes && isAmong(stage.Approval.By, by, s.groups) &&
			(stage.Approval.Self || by != t.registeredBy && !o.uploaded[fmt.Sprint(t.revision, by)]) {
			count++
		}
	}
	return count >= stage.Approval.Count && said[len(said)-1].yes
}

// mayAgree: an active deployment has some start in the stage before it, and the person is one of those asked.
func (o *oracle) mayAgree(t *oracleDeployment, c Command) bool {
	stage, group, _, ok := o.graph(t).d.Find(c.Target)
	if !ok || group != nil || stage == nil || stage.Approval == nil || t.rollback != nil || t.status != StatusActive {
		return false
	}
	if !isAmong(stage.Approval.By, c.By, c.Groups) {
		return false
	}
	if c.Kind == ApprovalGiven && !stage.Approval.Self && (c.By == t.registeredBy || o.uploaded[fmt.Sprint(t.revision, c.By)]) {
		return false
	}
	v := o.view(t)
	for i, s := range v.g.steps {
		if v.doable[i] && stageOf(s.target) == c.Target && strings.HasSuffix(s.event, "-started") {
			return true
		}
	}
	return false
}

// pending lists the stages of a deployment that people have still to agree to.
func (o *oracle) pending(t *oracleDeployment) []string {
	var list []string
	d := o.graph(t).d
	for i := range d.Stages {
		stage := &d.Stages[i]
		if t.status != StatusActive || stage.Approval == nil || t.rollback != nil || o.agreed(t, stage) {
			continue
		}
		v := o.view(t)
		if slices.ContainsFunc(v.g.steps, func(s stepName) bool {
			return v.doable[v.g.index[s]] && stageOf(s.target) == Path(o.pipeline, stage.Name) && strings.HasSuffix(s.event, "-started")
		}) {
			list = append(list, stage.Name)
		}
	}
	return list
}
