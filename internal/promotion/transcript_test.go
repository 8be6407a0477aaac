package promotion_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/admission"
	"github.com/waybill-dev/waybill/internal/cron"
	"github.com/waybill-dev/waybill/internal/goldentest"
	"github.com/waybill-dev/waybill/internal/promotion"
)

// TestTranscripts plays the commands of testdata/*.txt and compares the output.
func TestTranscripts(t *testing.T) {
	t.Parallel()
	goldentest.Play(t, "testdata/*.txt", func(t *testing.T, text string) string {
		p := &player{t: t, w: newWorld()}
		return goldentest.Blocks(text, p.run)
	})
}

// player plays a transcript. Each of its commands changes the world; then it decides until nothing more is to be
// recorded, and prints those changes.
type player struct {
	t *testing.T
	w *world
}

func (p *player) run(command []string) string {
	var out strings.Builder
	show := false
	for _, line := range command {
		name, rest, _ := strings.Cut(line, " ")
		if name == "show" {
			show = true
			continue
		}
		p.do(name, rest)
	}
	for range 10 {
		if !p.decide(&out) {
			break
		}
	}
	if show {
		p.show(&out)
	}
	return out.String()
}

// do changes the world by one line of a command.
func (p *player) do(name, rest string) {
	w, words := p.w, strings.Fields(rest)
	switch name {
	case "spec":
		p.spec(words)
	case "at":
		w.Now = p.clock(rest)
	case "see":
		w.sees(rest)
	case "propose":
		w.proposes(promotion.EnvName(words[0]), func(p *promotion.Proposal) { _, _ = fmt.Sscan(words[1], &p.Number) })
	case "checks":
		w.changes(promotion.EnvName(words[0]), func(p *promotion.Proposal) { p.Checks = promotion.Checks(words[1]) })
	case "merge":
		w.merges(promotion.EnvName(words[0]))
	case "merged":
		w.end(promotion.EnvName(words[0]), promotion.OpMerge, promotion.AttemptDone)
		w.changes(promotion.EnvName(words[0]), func(p *promotion.Proposal) { p.State, p.At = promotion.Merged, w.Now })
	case "close":
		w.changes(promotion.EnvName(words[0]), func(p *promotion.Proposal) {
			p.State, p.At, p.By = promotion.Closed,
				w.Now, "bob"
		})
	case "promoted": // proposed and merged
		w.proposes(promotion.EnvName(words[0])).merges(promotion.EnvName(words[0]))
	case "asked": // Git contained the revision
		w.end(promotion.EnvName(words[0]), promotion.OpPropose, promotion.AttemptDone, func(a *promotion.Attempt) {
			a.Class, a.Base = promotion.ErrAlreadyAsked, "0a1b"
		})
	case "fails":
		w.end(promotion.EnvName(words[0]), promotion.OpPropose, promotion.AttemptFailed, func(a *promotion.Attempt) {
			if len(words) > 1 {
				a.Class = promotion.ErrorClass(words[1])
			}
		})
	case "freeze":
		w.Frozen = &admission.Freeze{By: "ana", Until: p.until(words)}
	case "thaw":
		w.Frozen = nil
	case "forget": // the log, of which only proposals remain at the host
		w.Latest, w.LatestSince, w.Sightings, w.Runs = "", time.Time{}, nil, nil
		w.Attempts, w.Gates, w.Intents = nil, nil, nil
		for name := range w.Proposals {
			w.changes(name, func(p *promotion.Proposal) { p.Run = 0 })
		}
	case "lose": // the entries of an environment in the newest run
		w.Runs = slices.Clone(w.Runs)
		r := &w.Runs[len(w.Runs)-1]
		r.Facts = slices.DeleteFunc(slices.Clone(r.Facts),
			func(f promotion.Fact) bool { return string(f.Env) == words[0] })
	case "supersede": // the newest run
		w.Runs = slices.Clone(w.Runs)
		w.Runs[len(w.Runs)-1].End, w.Runs[len(w.Runs)-1].EndedAt = promotion.Superseded, w.Now
	case "sighted":
		w.Sightings = append(w.Sightings, promotion.Sighting{Seq: int64(len(w.Sightings) + 1),
			Revision: promotion.Revision(words[0]), At: w.Now})
	case "gate":
		w.end(promotion.EnvName(words[0]), promotion.OpGate, promotion.AttemptDone)
		w.gate(promotion.EnvName(words[0]), words[1], words[2] == "passed")
	case "approve", "reject", "hold", "release", "retry", "rollback", "override", "revision-reject", "accept":
		p.intend(promotion.IntentKind(name), words)
	default:
		p.t.Fatalf("command %q is not known", name)
	}
}

// clock parses a time of the day of the transcript.
func (p *player) clock(text string) time.Time {
	p.t.Helper()
	at, err := time.Parse("15:04:05", text)
	if err != nil {
		at, err = time.Parse("15:04", text)
	}
	p.check(err)
	return time.Date(2026, time.March, 13, at.Hour(), at.Minute(), at.Second(), 0, time.UTC)
}

// until returns the time of a word such as until=12:30; the zero time without one.
func (p *player) until(words []string) time.Time {
	for _, word := range words {
		if text, ok := strings.CutPrefix(word, "until="); ok {
			return p.clock(text)
		}
	}
	return time.Time{}
}

func (p *player) check(err error) {
	p.t.Helper()
	if err != nil {
		p.t.Fatal(err)
	}
}

// intend adds a request for an environment, or with * for the pipeline, and perhaps a revision and an end.
func (p *player) intend(kind promotion.IntentKind, words []string) {
	name := promotion.EnvName(strings.TrimPrefix(words[0], "*"))
	p.w.intend(kind, name, func(in *promotion.Intent) {
		in.Until = p.until(words[1:])
		if len(words) > 1 && in.Until.IsZero() {
			in.Revision = promotion.Revision(words[1])
		}
		in.Run = p.w.newestRun(in.Env).Number
		if kind == promotion.HoldBack {
			in.Run = 0
		}
	})
}

// spec changes the definition: "key=value" or "environment.key=value".
func (p *player) spec(words []string) {
	s := &p.w.Spec
	for _, word := range words {
		key, value, _ := strings.Cut(word, "=")
		duration, _ := time.ParseDuration(value)
		name, field, ofEnv := strings.Cut(key, ".")
		if !ofEnv {
			switch key {
			case "policy":
				s.OnNewRevision = promotion.Policy(value)
			case "drift":
				s.OnDrift = promotion.Reaction(value)
			case "backward":
				s.OnBackward = promotion.Reaction(value)
			case "run-timeout":
				s.RunTimeout = duration
			case "add":
				p.addEnv(promotion.EnvName(value))
			case "remove":
				s.Environments = slices.DeleteFunc(slices.Clone(s.Environments),
					func(e promotion.Environment) bool { return string(e.Name) == value })
			case "settle":
				s.Settle = duration
			case "suspend":
				s.Suspend = value == "true"
			default:
				p.t.Fatalf("%q is not known", key)
			}
			continue
		}
		p.specEnv(env(s, promotion.EnvName(name)), field, value)
	}
}

// addEnv adds an environment between staging and prod, and has prod depend on it.
func (p *player) addEnv(name promotion.EnvName) {
	s := &p.w.Spec
	added := promotion.Environment{Name: name, Targets: []promotion.TargetID{{Namespace: string(name)}}, Need: 1,
		DependsOn: []promotion.EnvName{"staging"}, Strategy: promotion.PullRequest}
	s.Environments = slices.Insert(slices.Clone(s.Environments), len(s.Environments)-1, added)
	s.Environments[len(s.Environments)-1].DependsOn = []promotion.EnvName{name}
}

func (p *player) specEnv(e *promotion.Environment, field, value string) {
	duration, _ := time.ParseDuration(value)
	switch field {
	case "soak":
		e.Soak = duration
	case "targets":
		e.Targets = nil
		for _, text := range strings.Split(value, ",") {
			cluster, namespace, ok := strings.Cut(text, "/")
			if !ok {
				cluster, namespace = "", text
			}
			e.Targets = append(e.Targets, promotion.TargetID{Cluster: cluster, Namespace: namespace})
		}
		e.Need = len(e.Targets)
	case "need":
		_, err := fmt.Sscan(value, &e.Need)
		p.check(err)
	case "strategy":
		e.Strategy = promotion.Strategy(value)
	case "hold":
		e.Hold = &promotion.SpecHold{Revision: promotion.Revision(value)}
	case "gate":
		e.Gates = append(e.Gates, promotion.Gate{Name: value, When: promotion.After})
	case "gate-before":
		e.Gates = append(e.Gates, promotion.Gate{Name: value, When: promotion.Before})
	case "automerge":
		e.AutoMerge = &promotion.AutoMerge{IgnoreChecks: value == "ignore-checks"}
	case "approval":
		e.Approval = &admission.Approval{Count: 1}
	case "rollback":
		e.Rollback = &promotion.Rollback{After: duration, Manual: value == "manual"}
	case "office-hours":
		e.Windows = parseWindows(p.t, admission.Window{Kind: cron.Allow, Schedule: "0 9 * * 1-5",
			Duration: action.Duration(8 * time.Hour), Timezone: value})
	default:
		p.t.Fatalf("%q is not known", field)
	}
}

func parseWindows(t testing.TB, windows ...admission.Window) admission.Windows {
	t.Helper()
	list, at, err := admission.ParseWindows(windows)
	if err != nil {
		t.Fatalf("%s: %v", at, err)
	}
	return list
}

// decide decides once, prints the changes of the plan, and records them. It reports whether there were any.
func (p *player) decide(out *strings.Builder) bool {
	plan := promotion.Decide(p.w.Input)
	before := out.Len()
	if s := plan.Sighting; s != nil {
		fmt.Fprintf(out, "sighting %d of %s\n", s.Seq, s.Revision)
	}
	for _, change := range plan.Runs {
		of := ""
		if change.Run.Env != "" {
			of = fmt.Sprintf(" of %s alone (%s)", change.Run.Env, change.Run.Cause)
		}
		end := "starts"
		if change.End != promotion.Running {
			end = string(change.End)
		}
		fmt.Fprintf(out, "run %d: %s %s%s\n", change.Run.Number, change.Run.Revision, end, of)
		for _, f := range change.Facts {
			if f.Event == promotion.StageFailed {
				fmt.Fprintf(out, "  %s in run %d: %s\n", f.Env, f.Run, f.Event)
			}
		}
	}
	for _, v := range slices.Concat(plan.Verdicts, plan.Also) {
		if text := facts(v); text != "" {
			fmt.Fprintf(out, "%s: %s\n", v.Env, text)
		}
		if text := steps(v); text != "" {
			fmt.Fprintf(out, "%s -> %s\n", v.Env, text)
		}
	}
	p.w.record(plan)
	return out.Len() > before
}

// show prints the pipeline as people see it.
func (p *player) show(out *strings.Builder) {
	plan := promotion.Decide(p.w.Input)
	if r := p.w.newestRun(""); r.Number > 0 {
		fmt.Fprintf(out, "run %d: %s, latest %s\n", r.Number, plan.Current, plan.Latest)
	}
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for i, v := range plan.Verdicts {
		rows := max(len(p.w.Spec.Environments[i].Targets), 1)
		list := p.words(v)
		for at := range max(rows, len(list)) {
			cells := [4]string{}
			if at == 0 {
				cells[0] = string(v.Env)
			}
			if at < len(p.w.Spec.Environments[i].Targets) {
				id := p.w.Spec.Environments[i].Targets[at]
				class, _, _ := p.w.Seen[id].At(p.w.Now)
				cells[1], cells[2] = id.String(), string(p.w.Seen[id].Applied)+" "+strings.ToLower(string(class))
			}
			if at < len(list) {
				cells[3] = list[at]
			}
			fmt.Fprintln(table, strings.TrimRight(strings.Join(cells[:], "\t"), "\t"))
		}
	}
	p.check(table.Flush())
	if !plan.Recheck.IsZero() {
		fmt.Fprintf(out, "again at %s\n", plan.Recheck.UTC().Format("Mon 15:04:05"))
	}
}

// words returns a verdict for the transcript: the phase with its start, and each reason with its end.
func (p *player) words(v promotion.Verdict) []string {
	list := []string{fmt.Sprintf("%s since %s", v.Phase, v.Since.UTC().Format("15:04"))}
	for _, r := range v.Why {
		text := fmt.Sprintf("%s: %s", r.Code, r.Message)
		if !r.Until.IsZero() {
			text += ", until " + r.Until.UTC().Format("Mon 15:04")
		}
		list = append(list, text)
	}
	return list
}
