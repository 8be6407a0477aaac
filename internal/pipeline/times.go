package pipeline

import "time"

// times has when the last row of each step of a graph came. A page of steps takes memory once one
// of its steps has a row: most of a large pipeline is still ahead of most deployments.
type times []*[stepsOfPage]int64 // Unix time in ns; 0: no row came

const stepsOfPage = 512

// newTimes returns the times of a graph of which no step has a row.
func newTimes(steps int) times { return make(times, (steps+stepsOfPage-1)/stepsOfPage) }

// of returns when the last row of a step came, in ns of Unix time; 0 if none came, or if the times
// were dropped.
func (t times) of(step int32) int64 {
	if t == nil || t[step/stepsOfPage] == nil {
		return 0
	}
	return t[step/stepsOfPage][step%stepsOfPage]
}

// set notes that a row of a step came.
func (t times) set(step int32, at time.Time) { t.setNano(step, at.UnixNano()) }

func (t times) setNano(step int32, at int64) {
	page := &t[step/stepsOfPage]
	if *page == nil {
		*page = new([stepsOfPage]int64)
	}
	(*page)[step%stepsOfPage] = at
}
