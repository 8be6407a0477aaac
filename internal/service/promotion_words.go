package service

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/waybill-dev/waybill/internal/promotion"
	"github.com/waybill-dev/waybill/internal/promotions"
)

// Phrase is a part of a sentence: text, or a moment, which each face shows in its own way.
type Phrase struct {
	Text string
	At   time.Time
}

// Sentence is a sentence with moments.
type Sentence []Phrase

// String returns the sentence with its moments as clock returns them.
func (s Sentence) String(clock func(time.Time) string) string {
	var text strings.Builder
	for _, part := range s {
		text.WriteString(part.Text)
		if !part.At.IsZero() {
			text.WriteString(clock(part.At))
		}
	}
	return text.String()
}

// EnvironmentSentences returns the state of an environment: its phase, then everything else that is in its way, then when its
// window closes.
func EnvironmentSentences(env promotions.EnvironmentView, now time.Time) []Sentence {
	first, rest := phaseSentence(env, now)
	lines := []Sentence{first}
	for _, reason := range rest {
		lines = append(lines, reasonOf(env, reason, now))
	}
	if w := env.Window; w != nil && w.Open && !w.Until.IsZero() && env.Want != "" && env.Phase != promotion.PhaseComplete {
		lines = append(lines, Sentence{{Text: "window closes " + zoneClock(w.Until, now, w.Zone)}})
	}
	return lines
}

// phaseSentence returns the phase of an environment with the reason for it, and the other reasons.
func phaseSentence(env promotions.EnvironmentView, now time.Time) (first Sentence, rest []promotions.ReasonView) {
	rest = env.Reasons
	take := func() Sentence { // the first reason
		if len(rest) == 0 {
			return nil
		}
		reason := reasonOf(env, rest[0], now)
		rest = rest[1:]
		return reason
	}
	switch env.Phase {
	case promotion.PhaseComplete:
		return completeSentence(env), rest
	case promotion.PhaseProposed:
		return proposedSentence(env, now)
	case promotion.PhaseSoaking:
		for i, reason := range rest {
			if reason.Code == promotion.WhySoaking && !reason.Until.IsZero() {
				return Sentence{{"soaking until ", reason.Until}}, append(rest[:i:i], rest[i+1:]...)
			}
		}
	}
	words := phaseWords(env)
	if !env.Since.IsZero() && (env.Phase == promotion.PhaseRollingOut || env.Phase == promotion.PhaseFailed) {
		first = Sentence{{words + " since ", env.Since}, {Text: ", " + Elapsed(now.Sub(env.Since))}}
	} else {
		first = Sentence{{Text: words}}
	}
	if reason := take(); reason != nil {
		first = append(append(first, Phrase{Text: ": "}), reason...)
	}
	return first, rest
}

// phaseWords returns the phase of an environment for people. One that is blocked waits, unless its first reason needs a person's
// repair; then the word is that of the pipeline's condition.
func phaseWords(env promotions.EnvironmentView) string {
	switch env.Phase {
	case promotion.PhaseRollingOut:
		return "rolling out"
	case promotion.PhaseBlocked:
		if len(env.Reasons) > 0 {
			switch of, _ := env.Reasons[0].Code.Condition(); of {
			case promotion.StandsFailed:
				return "failed"
			case promotion.StandsStalled:
				return "stalled"
			}
		}
		return "waiting"
	}
	return strings.ToLower(string(env.Phase))
}

// completeSentence returns when the environment was finished and the proofs of that.
func completeSentence(env promotions.EnvironmentView) Sentence {
	at := env.Finished
	if at.IsZero() {
		at = env.Since
	}
	s := Sentence{{Text: "complete"}}
	if !at.IsZero() {
		s = Sentence{{"complete ", at}}
	}
	if env.Soak > 0 {
		s = append(s, Phrase{Text: ", soaked " + ShortDuration(env.Soak.Duration())})
	}
	for _, gate := range env.Gates {
		if gate.When == promotion.After && gate.State == promotions.GatePassed {
			s = append(s, Phrase{Text: ", gate " + gate.Name + " passed"})
		}
	}
	if undone := env.Undone; undone != nil {
		s = append(s, Phrase{Text: ", rolled back" + byPerson(undone.By) + ": " + undone.Revision + " stays out of it until a newer revision comes"})
	}
	return s
}

// byPerson returns the person who did something, such as " by ana"; "" if Waybill did.
func byPerson(name string) string {
	if name == "" {
		return ""
	}
	return " by " + name
}

// proposedSentence returns the open pull request of an environment with its needs.
func proposedSentence(env promotions.EnvironmentView, now time.Time) (first Sentence, rest []promotions.ReasonView) {
	text, need := "proposed", "a person must merge it"
	if p := env.Proposal; p != nil {
		text = fmt.Sprintf("proposed: pull request %d", p.Number)
		if !p.At.IsZero() {
			text += ", open " + Elapsed(now.Sub(p.At))
		}
	}
	if env.AutoMerge {
		need = "Waybill merges it"
	}
	for _, reason := range env.Reasons {
		if (reason.Code == promotion.WhyWaitingMerge || reason.Code == promotion.WhyChecksFailed) && reason.Message != "" {
			need = reason.Message
			if p := env.Proposal; p != nil {
				need = strings.TrimPrefix(strings.TrimPrefix(need, fmt.Sprintf("pull request %d ", p.Number)), "is open: ")
			}
			continue
		}
		rest = append(rest, reason)
	}
	return Sentence{{Text: text + ", " + need}}, rest
}

// reasonOf returns a reason of an environment. A revision that people have declined stays out until one of two things happens, which the
// sentence names. A closed window opens at a time of its own time zone.
func reasonOf(env promotions.EnvironmentView, reason promotions.ReasonView, now time.Time) Sentence {
	if reason.Code == promotion.WhyDeclined && env.Want != "" {
		return append(ReasonSentence(reason), Phrase{Text: ": " + env.Want + " stays out of it until a retry, or a newer revision comes"})
	}
	if w := env.Window; w == nil || reason.Code != promotion.WhyWindowClosed || reason.Until.IsZero() {
		return ReasonSentence(reason)
	}
	text := "window opens " + zoneClock(reason.Until, now, env.Window.Zone)
	if env.Window.Reason != "" {
		text += ": " + env.Window.Reason
	}
	return Sentence{{Text: text}}
}

// ReasonSentence returns one reason with its end.
func ReasonSentence(reason promotions.ReasonView) Sentence {
	text := reason.Message
	if text == "" {
		text = string(reason.Code)
	}
	if reason.Until.IsZero() || strings.Contains(text, " until ") || strings.Contains(text, " opens ") {
		return Sentence{{Text: text}}
	}
	return Sentence{{text + ", until ", reason.Until}}
}

// Elapsed returns a duration in its largest unit: 12s, 18m, 3h, 5d.
func Elapsed(d time.Duration) string {
	switch d = max(d, 0); {
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", int(d.Hours()))
	}
	return fmt.Sprintf("%dd", int(d.Hours())/24)
}

// zoneClock returns a later moment in a time zone, such as "17:00 Europe/Paris", with its day if that is not today.
func zoneClock(at, now time.Time, zone string) string {
	location, err := time.LoadLocation(zone) // UTC without a name
	if err != nil {
		location, zone = time.UTC, "UTC"
	}
	if zone == "" {
		zone = "UTC"
	}
	local, form := at.In(location), "Mon 15:04 "
	switch {
	case local.Format(time.DateOnly) == now.In(location).Format(time.DateOnly):
		form = "15:04 "
	case local.Year() != now.In(location).Year():
		form = "2 Jan 2006 15:04 "
	case at.Sub(now) >= 6*24*time.Hour:
		form = "2 Jan 15:04 "
	}
	return local.Format(form) + zone
}

// TargetName returns the name of a target for people: leaf-eu/podinfo-prod, without the cluster's namespace if it is that of the
// pipeline, and podinfo-dev on the management cluster.
func TargetName(pipeline string, target promotions.TargetState) string {
	if target.Cluster == "" {
		return target.Namespace
	}
	namespace, _, _ := strings.Cut(pipeline, ":")
	return strings.TrimPrefix(target.Cluster, namespace+"/") + "/" + target.Namespace
}

// TargetRevision returns the revision of a target for people, and a different one that its controller tried last;
// "" if none is known.
func TargetRevision(target promotions.TargetState) string {
	switch {
	case target.Attempted == "":
		return target.Revision
	case target.Revision == "":
		return "tried " + target.Attempted
	}
	return target.Revision + " (tried " + target.Attempted + ")"
}

// TargetHealth returns the health of a target in a word, with the reason if it is not known.
func TargetHealth(target promotions.TargetState) string {
	word := strings.ToLower(string(target.Health))
	if target.Reason != "" {
		word += ": " + string(target.Reason)
	}
	return word
}

// PromotionFaults returns the conditions of a pipeline that need a person: Ready is False, or Stalled is True. One that only
// repeats another, as with an invalid definition, is left out.
func PromotionFaults(v promotions.View) (faults []promotions.ConditionView) {
	for _, c := range v.Conditions {
		if c.Type == "Ready" && c.Status == "False" || c.Type == string(promotion.StandsStalled) && c.Status == "True" {
			if !slices.ContainsFunc(faults, func(f promotions.ConditionView) bool { return f.Reason == c.Reason && f.Message == c.Message }) {
				faults = append(faults, c)
			}
		}
	}
	return faults
}
