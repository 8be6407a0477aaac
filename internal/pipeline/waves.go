package pipeline

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// dealing assigns the hosts of a group to its waves: the number of a host's wave, from 1, by the host's name. An
// empty one means one wave.
//
// A definition alone decides the dealing, except while a deployment is inside the stage: the hosts
// that both versions have then keep their waves, and a host that joins goes to the last wave. With
// a percentage, a joining host would otherwise change the size of every wave.
type dealing map[string]int32

// String returns the sizes as they are written in waybill.yaml, such as "1, 25%"; "" for no waves.
func (w *Waves) String() string {
	if w == nil {
		return ""
	}
	sizes := make([]string, len(w.Sizes))
	for i, size := range w.Sizes {
		sizes[i] = size.String()
	}
	return strings.Join(sizes, ", ")
}

// String returns the bake as the difference of two versions shows it; "" for none.
func (b *Bake) String() string {
	if b == nil {
		return ""
	}
	return fmt.Sprintf("%s every %s", time.Duration(b.For), time.Duration(b.Every))
}

// waveName returns the last part of a wave's path.
func waveName(number int32) string { return fmt.Sprintf("wave-%d", number) }

// count returns the number of waves.
func (d dealing) count() int32 {
	last := int32(0)
	for _, wave := range d {
		last = max(last, wave)
	}
	return last
}

// deal deals the hosts in list order, by the definition alone.
func (g *Group) deal() dealing {
	d := dealing{}
	if g.Waves == nil {
		return d
	}
	left, sizes := 0, g.Waves.Sizes
	for i, wave := 0, int32(0); i < len(g.Hosts); i++ {
		if left == 0 {
			left = max(1, sizes[min(int(wave), len(sizes)-1)].Of(len(g.Hosts), true))
			wave++
		}
		d[g.Hosts[i].Name] = wave
		left--
	}
	return d
}

// dealing returns how the hosts of a group are dealt in this version.
func (p *Graph) dealing(group int32) dealing {
	d := dealing{}
	if len(p.groups[group].waves) == 0 {
		return d
	}
	for _, h := range p.groups[group].hosts {
		d[p.hosts[h].spec.Name] = p.hosts[h].wave
	}
	return d
}

// keptDealing returns the dealing of a group that an edit does not deal again: hosts keep their
// waves, and those that join go to the last one. It returns nil if the new version divides the
// group otherwise, by other sizes or another order of hosts; refusals then finds which hosts move.
func (p *Graph) keptDealing(group int32, next *Group) dealing {
	was, old := p.groups[group].spec, p.dealing(group)
	last := old.count()
	if last == 0 || next.Waves == nil || !slices.Equal(was.Waves.Sizes, next.Waves.Sizes) || !sameOrder(was.Hosts, next.Hosts) {
		return nil
	}
	kept := dealing{}
	for i := range next.Hosts {
		name := next.Hosts[i].Name
		kept[name] = last
		if wave, had := old[name]; had {
			kept[name] = wave
		}
	}
	return kept
}

// sameOrder reports whether the hosts that two lists share are in the same order in both.
func sameOrder(a, b []Host) bool {
	shared := func(list, other []Host) (names []string) {
		in := map[string]bool{}
		for i := range other {
			in[other[i].Name] = true
		}
		for i := range list {
			if in[list[i].Name] {
				names = append(names, list[i].Name)
			}
		}
		return names
	}
	return slices.Equal(shared(a, b), shared(b, a))
}

// deal returns the graph of the next version as it applies here: with the waves kept of groups that
// a deployment is inside. Folding pipeline-defined and judging the edit both call it at the same
// position of the log, so they agree.
func (e *Engine) deal(next *Graph) *Graph {
	if len(next.waves) == 0 {
		return next
	}
	inside := e.inside()
	dealt, changed := map[string]dealing{}, false
	for g := range next.groups {
		group := &next.groups[g]
		want := e.keptDealing(inside, next.stages[group.stage].path, group)
		if want == nil {
			want = group.spec.deal()
		}
		// A graph that was dealt for an earlier version may be applied again.
		dealt[group.path] = want
		changed = changed || !maps.Equal(want, next.dealing(int32(g)))
	}
	if !changed {
		return next
	}
	return newPlan(next.def, dealt)
}

// keptDealing returns the dealing that a group of the next version keeps, or nil if it is dealt by
// its definition, as it is while no deployment that the edit moves is inside the stage.
func (e *Engine) keptDealing(inside []*deployment, stage string, group *groupPlan) dealing {
	old := e.plans[e.version]
	if old == nil || !slices.ContainsFunc(inside, func(t *deployment) bool { return !t.plan.def.Pin && t.isInsideStage(stage) }) {
		return nil
	}
	at, ok := old.targets[group.path]
	if !ok {
		return nil
	}
	return old.keptDealing(at.group, group.spec)
}
