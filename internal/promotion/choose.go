package promotion

import "time"

// Choice is the revision that the first environment offers.
type Choice struct {
	Latest      Revision  // ready at as many of its targets as are needed; "": none is
	LatestSince time.Time // since when it has been unchanged; zero without one
	Sighting    *Sighting // to record; its Seq is the next one
	Candidate   Revision  // to carry, unless a run does; "": none
	Settles     time.Time // time at which Latest becomes a candidate; zero: it is one, or cannot become one
	Backward    bool      // Latest is older than the newest sighting, and OnBackward holds it
	Recheck     time.Time // earliest time at which the clock alone changes the choice; zero: never
}

// Choose finds the revision of the first environment. It becomes a candidate once it has been unchanged for Settle.
func Choose(in Input) Choice {
	return choose(&in, newestFull(in.Runs))
}

// choose chooses, given the newest run through all environments; nil: there is none.
func choose(in *Input, current *Run) Choice {
	var c Choice
	if len(in.Spec.Environments) == 0 {
		return c
	}
	c.Latest, c.Recheck = latest(in, &in.Spec.Environments[0])
	if c.Latest == "" {
		return c
	}
	c.LatestSince = in.LatestSince
	if in.Latest != c.Latest || in.LatestSince.IsZero() || in.LatestSince.After(in.Now) {
		c.LatestSince = in.Now
	}
	newest := newestSighting(in.Sightings)
	if newest.Revision != c.Latest {
		if !c.accepts(in, current) {
			return c
		}
		c.Sighting = &Sighting{Seq: newest.Seq + 1, Revision: c.Latest, At: in.Now}
	}
	if current != nil && current.End != Superseded && current.Revision == c.Latest {
		return c
	}
	if at := c.LatestSince.Add(in.Spec.Settle); in.Now.Before(at) {
		c.Settles, c.Recheck = at, sooner(c.Recheck, at)
		return c
	}
	c.Candidate = c.Latest
	return c
}

// accepts reports whether a revision that is not the newest one sighted is a new sighting. One that was seen before a
// newer one is a step back, which must not undo the other environments unseen. The run's own revision needs none.
func (c *Choice) accepts(in *Input, current *Run) bool {
	switch {
	case orderOf(in.Sightings, c.Latest) == 0:
		return true
	case current != nil && current.End != Superseded && current.Revision == c.Latest:
		return false
	}
	c.Backward = in.Spec.OnBackward != Promote
	return !c.Backward
}

// latest returns the revision at which as many targets as needed are ready, and when a re-check that has kept one of
// them ready ends. More than half are needed, so at most one revision qualifies: that of the majority.
func latest(in *Input, env *Environment) (r Revision, recheck time.Time) {
	if len(env.Targets) == 0 {
		return "", recheck
	}
	votes := 0
	for _, id := range env.Targets {
		s := in.Seen[id]
		class, _, until := s.At(in.Now)
		recheck = sooner(recheck, until)
		switch {
		case class != Ready || s.Applied == "":
		case votes == 0:
			r, votes = s.Applied, 1
		case s.Applied == r:
			votes++
		default:
			votes--
		}
	}
	ready := 0
	for _, id := range env.Targets {
		if s := in.Seen[id]; s.Applied == r {
			if class, _, _ := s.At(in.Now); class == Ready {
				ready++
			}
		}
	}
	if ready < env.Need {
		return "", recheck
	}
	return r, recheck
}

// newestFull returns the newest run through all environments; nil if there is none.
func newestFull(runs []Run) *Run {
	for i := len(runs) - 1; i >= 0; i-- {
		if runs[i].Env == "" {
			return &runs[i]
		}
	}
	return nil
}

// newestSighting returns the newest sighting; the zero Sighting if there is none.
func newestSighting(sightings []Sighting) Sighting {
	if len(sightings) == 0 {
		return Sighting{}
	}
	return sightings[len(sightings)-1]
}

// orderOf returns the number of a revision's newest sighting; 0: it was never seen.
func orderOf(sightings []Sighting, r Revision) int64 {
	for i := len(sightings) - 1; i >= 0; i-- {
		if sightings[i].Revision == r {
			return sightings[i].Seq
		}
	}
	return 0
}

// sooner returns the earlier of two times, of which the zero time is never.
func sooner(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
