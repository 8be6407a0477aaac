package deployment

import (
	"fmt"
	"iter"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/pipeline"
	"github.com/waybill-dev/waybill/internal/service"
	"github.com/waybill-dev/waybill/internal/web/page"
)

// timeline draws when each part of a deployment waited, worked and failed: rows of bars over one
// axis.
type timeline struct {
	From, To time.Time
	Ticks    []string // time since From at the start of each part of the axis
	Grid     string   // path of the lines between the parts
	Rows     []span

	now time.Time // end of bars that have not ended
}

// axisWidth is the length of the axis in the units of the drawing. The browser stretches it to the
// width of the page.
const axisWidth = 1000

// narrowest is the width of the shortest bar, so that a short step in a long deployment is still
// seen.
const narrowest = 5

// span is a row of a timeline.
type span struct {
	Level int // 1: stage; 2: group, or a step of the stage; 3: host
	Name  string
	service.Run
	Bars  []bar
	Notes []string // failures and retries

	meanwhile []string
}

// bar is a time in a row.
type bar struct {
	Class page.Tone // tone of a step, else w-waiting or w-begun
	X, W  int
	Words string
	Since time.Time // start of a bar that has not ended
}

// Top returns the y of the bar in a row that is 20 high.
func (b bar) Top() int { return (20 - b.Height()) / 2 }

// Height returns the height of the bar: failures are high, waiting is thin.
func (b bar) Height() int {
	switch b.Class {
	case "w-waiting":
		return 4
	case page.Failed:
		return 20
	}
	return 12
}

// Waiting reports whether the row has waited for its turn since ReadyAt and still does.
func (s span) Waiting() bool {
	return s.State == service.RunWaiting && !s.ReadyAt.IsZero() && s.Bars != nil
}

// shortestWait is the shortest wait that is shown. A pass takes less.
const shortestWait = 100 * time.Millisecond

// Waited returns the time that the row waited before it started; 0 below shortestWait.
func (s span) Waited() time.Duration {
	if s.ReadyAt.IsZero() || s.StartedAt.Sub(s.ReadyAt) < shortestWait {
		return 0
	}
	return s.StartedAt.Sub(s.ReadyAt)
}

// Runs reports whether the row has started and not ended.
func (s span) Runs() bool { return s.State == service.RunRunning && !s.StartedAt.IsZero() }

// Why returns the reason why the row waits or does not proceed, else the commands of people while
// it waited. Errors are elsewhere on the page.
func (s span) Why() string {
	if (s.Waiting() || s.Runs()) && s.Reason != "" {
		return s.Reason
	}
	return strings.Join(s.meanwhile, "; ")
}

// readMeanwhile keeps the commands of people that concerned the row while it waited.
func (s *span) readMeanwhile(commands []service.RecordedCommand) {
	for _, c := range commands {
		concerns := s.Target == c.Target || strings.HasPrefix(s.Target, c.Target+"/")
		if concerns && s.Waited() > 0 && !c.At.Before(s.ReadyAt) && !c.At.After(s.StartedAt) {
			s.meanwhile = append(s.meanwhile, c.Text)
		}
	}
}

// Timeline returns the timeline of the hosts that the page shows.
func (d deploymentPage) Timeline() timeline {
	t := newAxis(d.CreatedAt, d.lastMoment())
	t.now = d.Now
	for _, stage := range d.Stages {
		t.add(d, span{Level: 1, Name: stage.Name, Run: stage.Run}, nil)
		t.addSteps(d, stage.Steps, true)
		for _, group := range stage.Groups {
			if len(stage.Groups) > 1 {
				t.add(d, span{Level: 2, Name: group.Name, Run: group.Run}, nil)
			}
			for _, wave := range group.Waves {
				t.add(d, span{Level: 2, Name: wave.Name, Run: wave.Run}, wave.Steps)
			}
			for _, host := range group.Hosts {
				t.add(d, span{Level: 3, Name: host.Name, Run: host.Run}, host.Steps)
			}
		}
		t.addSteps(d, stage.Steps, false)
	}
	return t
}

// lastMoment returns the end of the deployment; the present while it is on its way.
func (d deploymentPage) lastMoment() time.Time {
	if d.Status == pipeline.StatusActive || d.EndedAt.IsZero() {
		return d.Now
	}
	return d.EndedAt
}

// newAxis returns a timeline without rows. It ends with the part of the axis that contains to, so
// that the axis of an active deployment stays the same for some time.
func newAxis(from, to time.Time) timeline {
	part := axisPart(to.Sub(from))
	n := max(1, int((to.Sub(from)+part-1)/part))
	t := timeline{From: from, To: from.Add(time.Duration(n) * part)}
	var grid strings.Builder
	for i := range n {
		t.Ticks = append(t.Ticks, partText(time.Duration(i)*part))
		if i > 0 {
			fmt.Fprintf(&grid, "M%d 0V20", i*axisWidth/n)
		}
	}
	t.Grid = grid.String()
	return t
}

// axisPart returns the length of the parts of an axis: at most six parts are as long as whole.
func axisPart(whole time.Duration) time.Duration {
	const day = 24 * time.Hour
	const second, minute, hour = time.Second, time.Minute, time.Hour
	for _, part := range []time.Duration{
		second / 5, second / 2, second, 2 * second, 5 * second, 10 * second, 15 * second, 30 * second,
		minute, 2 * minute, 5 * minute, 10 * minute, 15 * minute, 30 * minute,
		hour, 2 * hour, 3 * hour, 6 * hour, 12 * hour, day, 2 * day, 7 * day, 30 * day,
	} {
		if whole <= 6*part {
			return part
		}
	}
	return (whole/(6*day) + 1) * day
}

// partText returns a multiple of an axis's part without its zero units: 0s, 0.4s, 90s, 1h30m, 2d.
func partText(d time.Duration) string {
	switch {
	case d >= 24*time.Hour && d%(24*time.Hour) == 0:
		return fmt.Sprintf("%dd", d/(24*time.Hour))
	case d < time.Second && d > 0:
		return fmt.Sprintf("%gs", d.Seconds())
	}
	return service.ShortDuration(d)
}

// addSteps adds the steps of a stage that are not steps of its hosts: build, gates and bake. The
// build and the gates before the hosts are added first.
func (t *timeline) addSteps(d deploymentPage, steps []service.StepRun, before bool) {
	for _, step := range steps {
		if isFirst := step.Before || service.IsBuilt(step.Event); isFirst != before {
			continue
		}
		row := span{Level: 2, Name: step.Name, Run: service.Run{
			Target: step.Target + " " + step.Event, State: stepRunState(step),
			StartedAt: step.StartedAt, EndedAt: step.EndedAt,
		}}
		if row.State == service.RunWaiting && d.Status != pipeline.StatusActive {
			row.State = service.RunUnreached
		}
		if row.State == service.RunRunning || row.State == service.RunWaiting {
			row.Reason, row.Who = step.Reason, step.Who
		}
		t.add(d, row, []service.StepRun{step})
	}
}

// stepRunState returns the state of a row for the state of a step.
func stepRunState(step service.StepRun) service.RunState {
	switch step.State {
	case pipeline.StateComplete:
		return service.RunFinished
	case pipeline.StateFailed:
		return service.RunFailed
	case pipeline.StateElided, pipeline.StateExcluded:
		return service.RunSkipped
	case pipeline.StateClaimed:
		return service.RunRunning
	}
	return service.RunWaiting
}

// add adds a row with bars for its wait, for its run and for its steps. Below a stage, a part that
// has neither begun nor waited gets no row.
func (t *timeline) add(d deploymentPage, row span, steps []service.StepRun) {
	live := d.Status == pipeline.StatusActive
	tone := page.ToneOf(row.State)
	switch {
	case row.Waited() > 0:
		t.bar(&row, bar{Class: "w-waiting", Words: "waited"}, row.ReadyAt, row.StartedAt)
	case row.State == service.RunWaiting && !row.ReadyAt.IsZero() && live:
		t.bar(&row, bar{Class: "w-waiting", Words: "waits"}, row.ReadyAt, time.Time{})
	}
	switch {
	case row.StartedAt.IsZero():
	case len(steps) == 0:
		t.bar(&row, bar{Class: tone, Words: string(row.State)}, row.StartedAt, row.EndedAt)
	case row.EndedAt.After(row.StartedAt) || live:
		t.bar(&row, bar{Class: "w-begun", Words: string(row.State)}, row.StartedAt, row.EndedAt)
	}
	for _, step := range steps {
		t.addTries(d, &row, step)
		row.Notes = append(row.Notes, troubleOf(step)...)
	}
	row.readMeanwhile(d.Commands)
	if row.Level == 1 || len(row.Bars) > 0 {
		t.Rows = append(t.Rows, row)
	}
}

// addTries adds a bar for each action that did not complete a step, and for each attempt at the
// step's last action: a single bar if the attempts were not read.
func (t *timeline) addTries(d deploymentPage, row *span, step service.StepRun) {
	tries := d.tries[step.Action]
	for _, try := range slices.Concat(step.Earlier, tries[:max(0, len(tries)-1)]) {
		t.bar(row, bar{Class: page.Failed, Words: step.Name + " " + page.LowerWords(try.Status)}, try.StartedAt, try.EndedAt)
	}
	from := step.StartedAt
	if n := len(tries); n > 0 {
		from = tries[n-1].StartedAt
	}
	if step.Status == action.Backoff && !service.IsBake(step.Event) && len(tries) > 0 { // nothing is at work now
		t.bar(row, bar{Class: page.Failed, Words: step.Name + " failed"}, from, tries[len(tries)-1].EndedAt)
		return
	}
	t.bar(row, bar{Class: stepTone(step), Words: step.Name + " " + step.Word}, from, step.EndedAt)
}

// mostTries bounds the actions whose attempts a page reads.
const mostTries = 30

// readTries reads the attempts at the first actions of a deployment that have more than one. The
// rounds of a bake are not attempts.
func (p *pages) readTries(r *http.Request, d service.DeploymentView) (map[action.ID][]service.Try, error) {
	found := map[action.ID][]service.Try{}
	for step := range stepsOf(d) {
		if step.Attempt < 2 || service.IsBake(step.Event) {
			continue
		}
		tries, err := p.service.Attempts(r.Context(), step.Action)
		if err != nil {
			return nil, err
		}
		if found[step.Action] = tries; len(found) == mostTries {
			break
		}
	}
	return found, nil
}

// stepsOf returns the steps of the stages of a deployment and of their hosts.
func stepsOf(d service.DeploymentView) iter.Seq[service.StepRun] {
	return func(yield func(service.StepRun) bool) {
		for _, stage := range d.Stages {
			lists := [][]service.StepRun{stage.Steps}
			for _, group := range stage.Groups {
				for _, host := range group.Hosts {
					lists = append(lists, host.Steps)
				}
			}
			for _, step := range slices.Concat(lists...) {
				if !yield(step) {
					return
				}
			}
		}
	}
}

// stepTone returns the tone of a step, which differs during a back-off.
func stepTone(step service.StepRun) page.Tone {
	if step.State == pipeline.StateClaimed && step.Status == action.Backoff && !service.IsBake(step.Event) {
		return page.Backoff
	}
	return page.ToneOf(step.State)
}

// troubleOf returns the retries, attempts and failure of a step, without its error.
func troubleOf(step service.StepRun) (notes []string) {
	switch n := len(step.Earlier); n {
	case 0:
	case 1:
		notes = append(notes, step.Name+": retried")
	default:
		notes = append(notes, fmt.Sprintf("%s: retried %d times", step.Name, n))
	}
	if service.IsBake(step.Event) { // its rounds are not attempts
		return notes
	}
	if step.Attempt > 1 {
		text := fmt.Sprintf("%s: attempt %d", step.Name, step.Attempt)
		if step.Spent > 0 {
			text += fmt.Sprintf(", %d of %d counted", step.Spent, step.Attempts)
		}
		notes = append(notes, text)
	}
	if step.State == pipeline.StateFailed {
		notes = append(notes, step.Name+" failed")
	}
	return notes
}

// bar adds a bar with a class and words to a row; none without a start. A zero end is the present.
func (t *timeline) bar(row *span, b bar, from, to time.Time) {
	if from.IsZero() {
		return
	}
	b.X = t.place(from)
	if to.IsZero() {
		b.Since, to = from, t.now
	} else {
		b.Words += ", " + page.Took(from, to)
	}
	b.W = min(max(narrowest, t.place(to)-b.X), axisWidth-b.X)
	row.Bars = append(row.Bars, b)
}

// place returns the x of a time on the axis.
func (t *timeline) place(at time.Time) int {
	x := int(axisWidth * float64(at.Sub(t.From)) / float64(t.To.Sub(t.From)))
	return min(max(0, x), axisWidth-narrowest)
}
