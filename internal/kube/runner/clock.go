package runner

import "time"

// nodeClock turns times of a node into those of this computer, whose clocks may differ. A record that is read at once
// shows by how much: the least time that passed, by both clocks, between the writing and the reading of a record. So
// a record that is read late, as after a cut, has the time at which it was written.
type nodeClock struct {
	known bool
	ahead time.Duration // how much this computer's clock is ahead, with the shortest way of a record
	last  time.Time
}

// local returns the time of a record that was written at, by the node's clock, and is read now. Times do not go back.
func (c *nodeClock) local(at, now time.Time) time.Time {
	if ahead := now.Sub(at); !c.known || ahead < c.ahead {
		c.known, c.ahead = true, ahead
	}
	if local := at.Add(c.ahead); local.After(c.last) {
		c.last = local
	}
	return c.last
}
