package cli

import (
	"fmt"
	"io"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/pipeline"
	"github.com/waybill-dev/waybill/internal/server"
)

// display shows the progress of a deployment.
type display interface {
	// known takes an entry from before the display began: it is not shown, but it dates the steps that run.
	known(e pipeline.Entry)
	// entry takes every later entry of the deployment, once, in order.
	entry(e pipeline.Entry) error
	// view takes the present state of the deployment, again and again.
	view(v server.DeploymentView) error
	// tick is called often, for what moves by itself.
	tick(now time.Time) error
	// away takes the error while the log cannot be read.
	away(err error) error
	// close leaves the output ready for other lines.
	close() error
}

// newDisplay returns the display for an output: entries as JSON, a board in place on a terminal, else a line for each change.
func newDisplay(p Printer, v server.DeploymentView) display {
	switch {
	case p.JSON:
		return &entryDisplay{p}
	case p.Screen != nil:
		return &liveDisplay{style: p.Style, screen: p.Screen, last: v, read: time.Now()}
	}
	return &lineDisplay{out: p.Out, story: newStory(v, p.Style), told: map[action.ID]int{}}
}

// entryDisplay writes each entry as one line of JSON.
type entryDisplay struct{ Printer }

func (d *entryDisplay) known(pipeline.Entry)             {}
func (d *entryDisplay) entry(e pipeline.Entry) error     { return d.Line(e) }
func (d *entryDisplay) view(server.DeploymentView) error { return nil }
func (d *entryDisplay) tick(time.Time) error             { return nil }
func (d *entryDisplay) close() error                     { return nil }
func (d *entryDisplay) away(err error) error {
	_, failed := fmt.Fprintf(d.Err, "waybill: waiting for the log: %v\n", err)
	return failed
}

// lineDisplay prints a line for each change.
type lineDisplay struct {
	out   io.Writer
	story *story
	told  map[action.ID]int // attempts whose failure was told
	patience
	waiting string // the reason told last
	isAway  bool
}

func (d *lineDisplay) print(text string) error {
	if text == "" {
		return nil
	}
	_, err := fmt.Fprintln(d.out, text)
	return err
}

func (d *lineDisplay) known(e pipeline.Entry)       { d.story.tell(e) }
func (d *lineDisplay) entry(e pipeline.Entry) error { return d.print(d.story.tell(e)) }

// view tells what leaves no entry: attempts that failed and are tried again, and what everything waits for.
func (d *lineDisplay) view(v server.DeploymentView) error {
	d.isAway = false
	for step := range steps(v) {
		ended := endedAttempts(step)
		if step.Error == "" || d.told[step.Action] >= ended {
			continue
		}
		d.told[step.Action] = ended
		if err := d.print(d.story.row(step.Target, d.story.warn("again"), failedAttempt(step, ended, v.Now), 0)); err != nil {
			return err
		}
	}
	reason := d.patience.lasting(v)
	if reason == "" || reason == d.waiting {
		return nil
	}
	d.waiting = reason
	return d.print("  waiting: " + reason)
}

func (d *lineDisplay) tick(time.Time) error { return nil }
func (d *lineDisplay) close() error         { return nil }

func (d *lineDisplay) away(err error) error {
	if d.isAway {
		return nil
	}
	d.isAway = true
	return d.print("  waiting for the log: " + oneLine(err.Error()))
}

// liveDisplay redraws the deployment's board in place.
type liveDisplay struct {
	style
	screen *screen
	last   server.DeploymentView
	read   time.Time // when last was read, by this process's clock
	reason string    // why the log cannot be read
	wait   patience
}

func (d *liveDisplay) known(pipeline.Entry)       {}
func (d *liveDisplay) entry(pipeline.Entry) error { return nil }

func (d *liveDisplay) view(v server.DeploymentView) error {
	d.last, d.read, d.reason = v, time.Now(), ""
	return nil
}

func (d *liveDisplay) away(err error) error {
	d.reason = oneLine(err.Error())
	return nil
}

// tick draws a frame: what runs gets older although nothing was read.
func (d *liveDisplay) tick(now time.Time) error {
	v := d.last
	v.Now = v.Now.Add(now.Sub(d.read))
	columns, rows := d.screen.size()
	l := layout{style: d.style, columns: columns}
	frame := l.render(squeeze(boardLines(v), max(3, rows-3)))
	return d.screen.draw(append(frame, l.fit(d.status(v, now))))
}

// status is the last line of a frame: how far it is, and what everything waits for.
func (d *liveDisplay) status(v server.DeploymentView, now time.Time) string {
	text := fmt.Sprintf("%s %d of %d done  %s", d.busy(spinner(now)), v.State.Done, v.State.Total, server.Took(v.Now.Sub(v.CreatedAt)))
	switch reason := d.wait.lasting(v); {
	case d.reason != "":
		return text + "  " + d.warn("waiting for the log: "+d.reason)
	case reason != "":
		return text + "  " + d.warn("waiting: "+reason)
	default:
		return text
	}
}

// close draws the board once more, whole: it is what stays on the terminal.
func (d *liveDisplay) close() error {
	columns, _ := d.screen.size()
	err := d.screen.draw(layout{style: d.style, columns: columns}.render(boardLines(d.last)))
	d.screen.leave()
	return err
}

// spinner is one of ten dots patterns, by the time.
func spinner(now time.Time) string {
	frames := []rune("⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏")
	return string(frames[int(now.UnixMilli()/100)%len(frames)])
}
