package action

// Unlimited means any number of tokens or slots.
const Unlimited = -1

// Ask is one instance's report about a limiter, and its request for tokens and slots.
type Ask struct {
	Key     string // a lane, or HandlerKey
	Limit          // as configured
	Results Results
	Unused  int // tokens to give back
	Tokens  int // most tokens to take
	SlotAsk
}

// Within returns the ask, reduced to a report if its handler has no slot left for the caller. full has the keys of
// such handlers. Otherwise two instances could deadlock, one with the slots of a lane and the other with those of its
// handler.
func (a Ask) Within(full map[string]bool) Ask {
	if key := HandlerKey(HandlerOf(a.Key)); a.Key != key && full[key] {
		a.Tokens, a.Want = 0, 0
	}
	return a
}

// Grant bounds the attempts that an instance may start in a lane until its next request.
type Grant struct {
	Key    string
	Tokens int // attempts that it may start; Unlimited: the lane has no meter
	Slots  int // attempts that it may have in progress; Unlimited: any number
	Bucket Bucket
}
