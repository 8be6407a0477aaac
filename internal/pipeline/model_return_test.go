package pipeline

import "slices"

// returns lists the rollbacks and catch-ups that a person may ask for, and judgments of revisions.
func (p *position) returns() []modelMove {
	var list []modelMove
	if len(p.auditor.deployments) == 0 {
		return nil
	}
	for _, target := range p.auditor.targets() {
		if p.left.rollbacks > 0 {
			list = append(list, modelMove{kind: "rollback", target: target})
		}
		if p.left.catchUps > 0 {
			list = append(list, modelMove{kind: "catch-up", target: target})
		}
		if p.left.catchUps > 0 && p.left.losses > 0 {
			list = append(list, modelMove{kind: "catch-up", target: target, event: "lost"})
		}
	}
	if p.left.judgments > 0 {
		for revision := range p.auditor.newest {
			list = append(list, modelMove{kind: "reject-revision", number: revision + 1}, modelMove{kind: "accept-revision", number: revision + 1})
		}
	}
	return list
}

// targets lists the pipeline, as "", its stages, and the hosts of stages with several.
func (u *auditor) targets() []string {
	list := []string{""}
	for _, s := range u.versions[u.law].d.Stages {
		list = append(list, s.Name)
		for _, g := range s.Groups {
			for _, h := range g.Hosts {
				if len(g.Hosts) > 1 {
					list = append(list, Path(s.Name, g.Name, h.Name))
				}
			}
		}
	}
	return list
}

// bringBack asks for a rollback or a catch-up; what the engine refuses changes nothing.
func (p *position) bringBack(m modelMove) error {
	target := "shop"
	if m.target != "" {
		target = Path("shop", m.target)
	}
	var rows []Entry
	var err error
	if m.kind == "rollback" {
		rows, err = p.engine.Rollback(Rollback{Target: target, By: "ana"})
		p.auditor.judgeUndo(target, err)
	} else {
		var lost []string
		if m.event == "lost" {
			lost = everyHost(p.auditor.versions[p.auditor.law].d)
		}
		rows, err = p.engine.CatchUp(CatchUp{Target: target, By: "ana", Lost: lost})
		p.auditor.judgeCatchUp(target, lost, rows, err)
	}
	if isAllowed := err == nil; !isAllowed {
		return nil
	}
	for _, row := range rows {
		if err := p.fold(row, 0); err != nil {
			return err
		}
	}
	if m.kind == "rollback" {
		p.left.rollbacks--
	} else {
		p.left.catchUps--
		if m.event == "lost" {
			p.left.losses--
		}
	}
	return nil
}

// judge rejects a revision or accepts it again.
func (p *position) judge(m modelMove) error {
	judge := p.engine.Accept
	if m.kind == "reject-revision" {
		judge = p.engine.Reject
	}
	row, err := judge(m.number, "", "ana", "looking")
	if was := p.auditor.rejected[m.number]; (err == nil) == (was == (m.kind == "reject-revision")) {
		p.auditor.breaks("4.12: r%d is rejected: %v, and %s is answered with %v", m.number, was, m.kind, err)
	}
	if isAllowed := err == nil; !isAllowed {
		return nil
	}
	p.left.judgments--
	return p.fold(row, 0)
}

// isOutside: a rollback has the steps of its hosts, and the starts and finishes of their stages and groups as far as
// these are in scope; a catch-up the chains of its hosts only.
func (t *audited) isOutside(s stepName) bool {
	if t.kind == "" || s.target == "shop" || slices.Contains(t.hosts, s.target) && (isHostPath(s.target) || s.event == EnvPromoted) {
		return false
	}
	switch s.event {
	case StageStarted, StageFinished, GroupStarted, GroupFinished:
		around := slices.ContainsFunc(t.hosts, func(host string) bool { return isUnder(s.target, "", stepName{target: host}) })
		return t.kind == KindCatchUp || !around || !isUnder(t.scope, "", s)
	}
	return true
}
