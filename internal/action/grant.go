package action

// Unlimited means any number of tokens or slots.
const Unlimited = -1

// Ask is what one instance reports of a limiter and wants of it.
type Ask struct {
	Key     string // a lane, or HandlerKey
	Limit          // as configured
	Results Results
	Unused  int // tokens to give back
	Tokens  int // to take at most
	SlotAsk
}

// Within is an ask of a lane, given which handlers have no slot left for the asker: it wants nothing then, so that no instance
// keeps the slots of a lane while another one keeps those of its handler.
func (a Ask) Within(full map[string]bool) Ask {
	if key := HandlerKey(HandlerOf(a.Key)); a.Key != key && full[key] {
		a.Tokens, a.Want = 0, 0
	}
	return a
}

// Grant is what an instance may do in a lane until it asks again.
type Grant struct {
	Key    string
	Tokens int // attempts that it may start; Unlimited: the lane has no meter
	Slots  int // attempts that it may have in progress; Unlimited: any number
	Bucket Bucket
}
