package promotion

import (
	"slices"
	"strings"
	"time"
)

// Sentences returns the state of an environment for people, such as "complete 14:09, soaked 5m, gate smoke passed" and
// "proposed: pull request 41, open 11m, a person must merge it". The first describes the phase, with the first reason;
// each further one names one more reason, or when an open window closes. Times of day are in the zone of in.Now, which
// is the time of reading. The verdict is one of Decide, on the same input.
func Sentences(in Input, v Verdict) []string {
	i := slices.IndexFunc(in.Spec.Environments, func(e Environment) bool { return e.Name == v.Env })
	if i < 0 {
		return nil
	}
	w := wording{env: &in.Spec.Environments[i], v: &v, now: in.Now}
	for r := range in.Runs {
		if in.Runs[r].Number == v.Run {
			w.facts = in.Runs[r].Facts
		}
	}
	if p, ok := in.Proposals[v.Env]; ok && p.State == Open && p.Revision == v.Want {
		w.proposal = &p
	}
	return w.sentences()
}

// wording puts a verdict into words.
type wording struct {
	env      *Environment
	v        *Verdict
	facts    []Fact    // entries of the run
	proposal *Proposal // nil: none is open for the wanted revision
	now      time.Time
}

func (w *wording) sentences() []string {
	head, why := w.head(), w.v.Why
	if len(why) > 0 {
		switch {
		case w.v.Phase == PhaseComplete:
			head = strings.Join([]string{head, w.reason(why[0])}, ", ")
		case w.proposal != nil && w.v.Phase == PhaseProposed:
			head += ", " + w.merge(why[0])
		case w.v.Phase == PhaseSoaking:
			head += " until " + w.clock(why[0].Until, w.now.Location())
		default:
			head += ": " + w.reason(why[0])
		}
		why = why[1:]
	}
	list := []string{head}
	for _, r := range why {
		list = append(list, w.reason(r))
	}
	if text := w.closing(); text != "" {
		list = append(list, text)
	}
	return list
}

// head describes the phase.
func (w *wording) head() string {
	here := w.now.Location()
	switch w.v.Phase {
	case PhaseComplete:
		return w.complete()
	case PhaseRollingOut:
		return "rolling out since " + w.clock(w.v.Since, here)
	case PhaseFailed:
		return "failed " + w.clock(w.v.Since, here)
	case PhaseProposed:
		if w.proposal != nil {
			return "proposed: " + proposalName(w.proposal) + ", open " + shortAge(w.now.Sub(w.proposal.At))
		}
	}
	return strings.ToLower(string(w.v.Phase))
}

// complete describes a finish, and how it was proved.
func (w *wording) complete() string {
	at := w.v.Since
	var gates []string
	for _, f := range slices.Concat(w.facts, w.v.Facts) {
		if f.Run != w.v.Run || f.Env != w.v.Env {
			continue
		}
		gate, isGate := strings.CutPrefix(string(f.Event), string(GateEvent("")))
		isAfter := func(g Gate) bool { return g.Name == gate && g.When == After }
		switch {
		case f.Event == StageFinished:
			at = f.At
		case isGate && slices.ContainsFunc(w.env.Gates, isAfter):
			gates = append(gates, "gate "+gate+" passed")
		}
	}
	parts := []string{"complete " + w.clock(at, w.now.Location())}
	if w.env.Soak > 0 {
		parts = append(parts, "soaked "+shortDuration(w.env.Soak))
	}
	return strings.Join(append(parts, slices.Compact(gates)...), ", ")
}

// merge describes the wait of an open proposal, whose name the sentence has already.
func (w *wording) merge(r Reason) string {
	if r.Code != WhyWaitingMerge {
		return w.reason(r)
	}
	text := strings.TrimPrefix(r.Message, proposalName(w.proposal)+" ")
	return strings.TrimPrefix(text, "is open: ")
}

// reason describes a reason, with its end.
func (w *wording) reason(r Reason) string {
	text := r.Message
	if text == "" {
		text = string(r.Code)
	}
	if r.Until.IsZero() {
		return text
	}
	if r.Code == WhyWindowClosed {
		opens := "window opens " + w.clock(r.Until, w.env.Windows.Zone()) + " " + w.env.Windows.Zone().String()
		if text == noWindow {
			return opens
		}
		return opens + ": " + text
	}
	return text + ", until " + w.clock(r.Until, w.now.Location())
}

// closing describes the end of an open window that an environment still needs; "": none.
func (w *wording) closing() string {
	isWaiting := w.v.Phase == PhaseProposed || w.v.Phase == PhasePromoting || w.v.Phase == PhaseBlocked
	if !isWaiting || len(w.env.Windows) == 0 || w.v.Run == 0 || !w.env.Windows.At(w.now).Open {
		return ""
	}
	end, zone := w.env.Windows.OpenUntil(w.now), w.env.Windows.Zone()
	if end.IsZero() {
		return ""
	}
	return "window closes " + w.clock(end, zone) + " " + zone.String()
}

// clock returns a time of day, with the day unless it is today.
func (w *wording) clock(at time.Time, zone *time.Location) string {
	at, now := at.In(zone), w.now.In(zone)
	distance := at.Sub(now).Abs()
	switch {
	case at.YearDay() == now.YearDay() && distance < 24*time.Hour:
		return at.Format("15:04")
	case distance < 6*24*time.Hour:
		return at.Format("Mon 15:04")
	case at.Year() == now.Year():
		return at.Format("Mon 2 Jan 15:04")
	}
	return at.Format("Mon 2 Jan 2006 15:04")
}

// shortAge returns an age in its largest unit, such as 11m.
func shortAge(d time.Duration) string {
	switch {
	case d < time.Minute:
		return shortDuration(max(0, d.Truncate(time.Second)))
	case d < time.Hour:
		return shortDuration(d.Truncate(time.Minute))
	case d < 48*time.Hour:
		return shortDuration(d.Truncate(time.Hour))
	}
	days := d / (24 * time.Hour)
	return strings.TrimSuffix((days*time.Hour).String(), "h0m0s") + "d"
}
