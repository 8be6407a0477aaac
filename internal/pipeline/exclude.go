package pipeline

import "strings"

// exclusion elides the steps of a target and below it: all, or those of one event. It is kept by
// name and applies to every later graph, also to hosts that join the target afterwards.
type exclusion struct {
	target, event string // event "": all
	reason, by    string // texts for people; by is "" for the engine
}

// covers reports whether an exclusion, or a command, for target and event is about the step.
func covers(target, event string, s stepName) bool {
	return (event == "" || event == s.event) && (s.target == target || strings.HasPrefix(s.target, target+"/"))
}

// lacking excludes the hosts that need one of the architectures (R16). It is computed for each
// graph and not recorded, so that it also covers hosts of the architecture that join later.
func lacking(plan *Graph, labels map[string]bool) []exclusion {
	if len(labels) == 0 {
		return nil
	}
	var list []exclusion
	for h := range plan.hosts {
		if host := &plan.hosts[h]; labels[host.arch] {
			list = append(list, exclusion{target: host.path, reason: tooLate(host.arch)})
		}
	}
	return list
}

// tooLate reports why a host that needs an artifact is left out of a deployment that was built without it.
func tooLate(label string) string { return label + " is built for later revisions only" }

// withoutIt returns a text such as "beta/all/oak was tested without it".
func withoutIt(p *Graph, w *walk, met int32) string {
	verb := map[string]string{
		HostReplicated: "replicated", HostDeployed: "deployed", HostTested: "tested",
		HostFinished: "finished", WaveFinished: "finished", GroupFinished: "finished", StageFinished: "finished",
		HostStarted: "started", WaveStarted: "started", GroupStarted: "started", StageStarted: "started",
		WaveBaked: "baked", StageBaked: "baked",
	}[p.nodes[met].event]
	if gate, ok := strings.CutPrefix(p.nodes[met].event, GateEvent("")); ok {
		verb = "let through by " + gate
	}
	if verb == "" {
		verb = strings.TrimPrefix(p.nodes[met].event, "host-")
	}
	if w.is(met, claimed) {
		return p.short(p.target(met)) + " is being " + verb + " without it"
	}
	return p.short(p.target(met)) + " was " + verb + " without it"
}

// later names the work done behind an elided step, such as "prod/east was finished without it". It
// searches breadth-first, so the nearest work is named.
func later(p *Graph, w *walk, n int32) string {
	seen := map[int32]bool{}
	list := []int32{n}
	for i := 0; i < len(list); i++ {
		for _, s := range p.graph.next.of(list[i]) {
			if w.is(s, complete|claimed) {
				return withoutIt(p, w, s)
			}
			if !seen[s] {
				seen[s] = true
				list = append(list, s)
			}
		}
	}
	return "it came too late"
}
