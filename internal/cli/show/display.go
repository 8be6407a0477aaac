package show

import (
	"fmt"
	"io"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/pipeline"
	"github.com/waybill-dev/waybill/internal/service"
)

// Display shows the progress of a deployment.
type Display interface {
	// Known takes an entry from before the display began: it is not shown, but it dates the steps that run.
	Known(e pipeline.Entry)
	// Entry takes every later entry of the deployment, once, in order.
	Entry(e pipeline.Entry) error
	// View takes the present state of the deployment, again and again.
	View(v service.DeploymentView) error
	// Tick is called often, for what moves on its own.
	Tick(now time.Time) error
	// Away takes the error while the log cannot be read.
	Away(err error) error
	// Close leaves the output ready for other lines.
	Close() error
}

// NewDisplay returns the display for an output: entries as JSON, a board in place on a terminal, else a line for each
// change. leave describes how a person ends the watching; it is shown while the deployment waits for a person.
func NewDisplay(p Printer, v service.DeploymentView, leave string) Display {
	switch {
	case p.JSON:
		return &entryDisplay{p}
	case p.Screen != nil:
		return &liveDisplay{Style: p.Style, screen: p.Screen, last: v, read: time.Now(), leave: leave}
	}
	return &lineDisplay{out: p.Out, story: newStory(v, p.Style), printed: map[action.ID]int{}, leave: leave}
}

// entryDisplay writes each entry as one line of JSON.
type entryDisplay struct{ Printer }

func (d *entryDisplay) Known(pipeline.Entry)              {}
func (d *entryDisplay) Entry(e pipeline.Entry) error      { return d.Line(e) }
func (d *entryDisplay) View(service.DeploymentView) error { return nil }
func (d *entryDisplay) Tick(time.Time) error              { return nil }
func (d *entryDisplay) Close() error                      { return nil }
func (d *entryDisplay) Away(err error) error {
	_, failed := fmt.Fprintf(d.Err, "waybill: waiting for the log: %v\n", err)
	return failed
}

// lineDisplay prints a line for each change.
type lineDisplay struct {
	out     io.Writer
	story   *story
	printed map[action.ID]int // attempts whose failure was printed
	patience
	waiting string // the reason printed last
	leave   string // not printed yet
	isAway  bool
}

func (d *lineDisplay) print(text string) error {
	if text == "" {
		return nil
	}
	_, err := fmt.Fprintln(d.out, text)
	return err
}

func (d *lineDisplay) Known(e pipeline.Entry)       { d.story.line(e) }
func (d *lineDisplay) Entry(e pipeline.Entry) error { return d.print(d.story.line(e)) }

// View prints the changes without an entry: failed attempts that are repeated, and the reason why nothing runs.
func (d *lineDisplay) View(v service.DeploymentView) error {
	d.isAway = false
	for step := range steps(v) {
		ended := endedAttempts(step)
		if step.Error == "" || d.printed[step.Action] >= ended {
			continue
		}
		d.printed[step.Action] = ended
		if err := d.print(d.story.row(step.Target, d.story.warn("again"), failedAttempt(step, ended, v.Now), 0)); err != nil {
			return err
		}
	}
	reason, who := d.patience.lasting(v)
	if reason == "" || reason == d.waiting {
		return nil
	}
	d.waiting = reason
	if err := d.print("  waiting: " + waitingText(reason, who)); err != nil || who == "" || d.leave == "" {
		return err
	}
	leave := d.leave
	d.leave = ""
	return d.print("  to leave: " + leave)
}

func (d *lineDisplay) Tick(time.Time) error { return nil }
func (d *lineDisplay) Close() error         { return nil }

func (d *lineDisplay) Away(err error) error {
	if d.isAway {
		return nil
	}
	d.isAway = true
	return d.print("  waiting for the log: " + OneLine(err.Error()))
}

// liveDisplay redraws the deployment's board in place.
type liveDisplay struct {
	Style
	screen *Screen
	last   service.DeploymentView
	read   time.Time // time at which last was read, by this process's clock
	reason string    // why the log cannot be read
	wait   patience
	leave  string // how a person leaves it
}

func (d *liveDisplay) Known(pipeline.Entry)       {}
func (d *liveDisplay) Entry(pipeline.Entry) error { return nil }

func (d *liveDisplay) View(v service.DeploymentView) error {
	d.last, d.read, d.reason = v, time.Now(), ""
	return nil
}

func (d *liveDisplay) Away(err error) error {
	d.reason = OneLine(err.Error())
	return nil
}

// Tick draws a frame: running steps get older although nothing was read.
func (d *liveDisplay) Tick(now time.Time) error {
	v := d.last
	v.Now = v.Now.Add(now.Sub(d.read))
	columns, rows := d.screen.Size()
	l := layout{Style: d.Style, columns: columns}
	status := d.status(v, now)
	frame := l.render(squeeze(boardLines(v), max(3, rows-2-len(status))))
	for _, line := range status {
		frame = append(frame, l.fit(line))
	}
	return d.screen.draw(frame)
}

// status returns the last lines of a frame: how far the deployment is, the reason why nothing runs, and a person's
// choices.
func (d *liveDisplay) status(v service.DeploymentView, now time.Time) []string {
	text := fmt.Sprintf("%s %s  %s", d.busy(spinner(now)), stepsDone(&v.State), service.Took(v.Now.Sub(v.CreatedAt)))
	reason, who := d.wait.lasting(v)
	switch {
	case d.reason != "":
		return []string{text + "  " + d.warn("waiting for the log: "+d.reason)}
	case reason == "":
		return []string{text}
	}
	lines := []string{text + "  " + d.warn("waiting: "+reason)}
	if who != "" {
		lines = append(lines, "  to continue: "+who)
		if d.leave != "" {
			lines = append(lines, "  to leave: "+d.leave)
		}
	}
	return lines
}

// Close draws the board once more, whole: it stays on the terminal.
func (d *liveDisplay) Close() error {
	columns, _ := d.screen.Size()
	err := d.screen.draw(layout{Style: d.Style, columns: columns}.render(boardLines(d.last)))
	d.screen.leave()
	return err
}

// spinner returns one of ten patterns of dots, by the time.
func spinner(now time.Time) string {
	frames := []rune("⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏")
	return string(frames[int(now.UnixMilli()/100)%len(frames)])
}
