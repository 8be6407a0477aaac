package action

// SlotAsk is one instance's share of a limit on attempts at a time, and its wish for more.
type SlotAsk struct {
	Held int // slots that it has, as far as it knows
	Busy int // slots in use now
	Want int // slots that it wants besides Held; 0: nothing waits for a slot
}

// SlotPool is a limit on concurrent attempts, and how its slots are divided.
type SlotPool struct {
	Capacity int
	Live     int  // instances that may want slots, including the asking one; at least 1
	Others   int  // slots that other instances hold
	Wanted   bool // another instance waits for slots
	Had      int  // slots that the asking instance holds in the database
}

// Share returns how many slots the asking instance may use from now on, and how many the database
// must record for it. The second number is the greater while attempts still run that a lowered
// limit no longer allows: their slots must not go to another instance.
//
// Slots that nothing waits for go back, and so do idle ones above an even share while another
// instance waits. One ask adds at most half an even share, so that the first instance to ask does
// not take all.
func (p SlotPool) Share(ask SlotAsk) (slots, held int) {
	live := max(p.Live, 1)
	even := (p.Capacity + live - 1) / live
	step := max(1, (p.Capacity+2*live-1)/(2*live))
	keep := min(ask.Held, p.Had)
	if ask.Want == 0 {
		keep = 0
	}
	free := p.Capacity - p.Others
	if p.Wanted {
		keep = min(keep, even)
		step = min(step, even-max(keep, ask.Busy))
	}
	keep = max(keep, ask.Busy)
	more := max(0, min(ask.Want, step, free-keep))
	slots = max(0, min(keep+more, free))
	return slots, max(slots, ask.Busy)
}
