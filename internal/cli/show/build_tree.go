package show

import (
	"fmt"
	"time"

	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/service"
)

// buildTree draws a build in place on a terminal.
type buildTree struct {
	*buildScene
	screen *Screen
	stop   chan struct{}
	done   chan struct{}
}

func newBuildTree(base *buildScene, s *Screen) *buildTree {
	return &buildTree{buildScene: base, screen: s, stop: make(chan struct{}), done: make(chan struct{})}
}

// spinnerFrames move beside running steps.
const spinnerFrames = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"

func (v *buildTree) Begin() {
	for _, line := range v.opening() {
		fmt.Fprintln(v.Out, line)
	}
	go v.animate()
}

// animate draws until end.
func (v *buildTree) animate() {
	defer close(v.done)
	ticker := time.NewTicker(FrameEvery)
	defer ticker.Stop()
	frames := []rune(spinnerFrames)
	for i := 0; ; i++ {
		select {
		case <-v.stop:
			return
		case now := <-ticker.C:
			v.mu.Lock()
			_ = v.screen.draw(v.frame(now, string(frames[i%len(frames)]))) // a terminal that is gone shows nothing
			v.mu.Unlock()
		}
	}
}

// frame returns the tree, cut to the screen: steps that run stay, steps that have ended or wait are counted.
func (v *buildTree) frame(now time.Time, spinner string) []string {
	columns, height := v.screen.Size()
	rows := v.board.rows(v.Style, now, spinner, columns)
	if room := height - 3; len(rows) > room {
		rows = v.busiest(rows, room)
	}
	rows = append(rows, v.Style.faint(fmt.Sprintf("%s   Ctrl-C cancels, twice forces", service.Took(now.Sub(v.board.began)))))
	for i := range rows {
		rows[i] = cut(rows[i], columns)
	}
	return rows
}

// busiest keeps as many rows as fit: running and failed steps first, then other steps in their order.
func (v *buildTree) busiest(rows []string, room int) []string {
	keep := map[int]bool{}
	for _, wanted := range []func(build.Status) bool{
		func(s build.Status) bool { return s.Broken() || s != build.Pending && !s.Ended() },
		func(build.Status) bool { return true },
	} {
		for i, step := range v.head.Plan.Steps {
			if len(keep) < room-1 && wanted(v.board.steps[step.ID].status) {
				keep[i] = true
			}
		}
	}
	var out []string
	for i, row := range rows {
		if keep[i] {
			out = append(out, row)
		}
	}
	return append(out, fmt.Sprintf("   … and %s more", Count(len(rows)-len(out), "step")))
}

func (v *buildTree) Status(step int, u build.Update) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.board.status(step, u)
}

func (v *buildTree) Output(step int, entries []build.Entry) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.board.output(step, entries)
}

func (v *buildTree) Artifact(int, build.Artifact) {}

func (v *buildTree) End(result build.Status) {
	close(v.stop)
	<-v.done
	v.mu.Lock()
	defer v.mu.Unlock()
	columns, _ := v.screen.Size()
	lines := v.board.summary(v.Style, v.head.Log, columns)
	if result != "" {
		lines = append(lines, v.closing(result)...)
	}
	_ = v.screen.draw(lines) // a terminal that is gone shows nothing
	v.screen.leave()
}
