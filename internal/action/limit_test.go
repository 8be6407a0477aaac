package action_test

import (
	"bufio"
	"fmt"
	"math"
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/goldentest"
)

var epoch = time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)

// TestLimitTranscripts plays testdata/limit-*.txt: each line is a command, an arrow and the lane's
// state then.
//
//	lane [rate R] [burst B] [window D]     a new bucket
//	wait D                      time passes
//	ok N, bad N [over D]        results are reported; bad ones with a reason
//	retry-after D, gone         the target names a time, or is gone for good
//	take N, return N            tokens
//	pause [for D], resume, enable, reset
func TestLimitTranscripts(t *testing.T) {
	t.Parallel()
	goldentest.Play(t, "testdata/limit-*.txt", play)
}

// player is a bucket and the time.
type player struct {
	t   *testing.T
	b   action.Bucket
	now time.Time
	got int
}

func play(t *testing.T, text string) string {
	t.Helper()
	p := player{t: t, now: epoch}
	var out strings.Builder
	lines := bufio.NewScanner(strings.NewReader(text))
	for lines.Scan() {
		line, _, _ := strings.Cut(lines.Text(), "→")
		line = strings.TrimRight(line, " ")
		if line == "" || strings.HasPrefix(line, "#") {
			fmt.Fprintln(&out, line)
			continue
		}
		p.do(strings.Fields(line))
		fmt.Fprintf(&out, "%-24s → %s\n", line, p.state())
	}
	return out.String()
}

func (p *player) number(text string) float64 {
	n, err := strconv.ParseFloat(text, 64)
	if err != nil {
		p.t.Fatal(err)
	}
	return n
}

func (p *player) duration(text string) time.Duration {
	d, err := time.ParseDuration(text)
	if err != nil {
		p.t.Fatal(err)
	}
	return d
}

func (p *player) do(words []string) {
	word := func(name string) string {
		for i := 0; i+1 < len(words); i++ {
			if words[i] == name {
				return words[i+1]
			}
		}
		return "0"
	}
	span := func(name string) time.Duration {
		if text := word(name); text != "0" {
			return p.duration(text)
		}
		return 0
	}
	switch words[0] {
	case "lane":
		p.b = action.Bucket{}.With(action.Limit{Rate: p.number(word("rate")), Burst: int(p.number(word("burst"))), Window: span("window")}, p.now)
	case "wait":
		p.now = p.now.Add(p.duration(words[1]))
		p.b = p.b.At(p.now)
	case "ok":
		p.b = p.b.Observe(action.Results{OK: int(p.number(words[1])), Over: span("over")}, p.now)
	case "bad":
		p.b = p.b.Observe(action.Results{Bad: int(p.number(words[1])), Over: span("over"), Reason: "503"}, p.now)
	case "retry-after":
		p.b = p.b.Observe(action.Results{Bad: 1, Reason: "429", Pause: p.now.Add(p.duration(words[1]))}, p.now)
	case "gone":
		p.b = p.b.Observe(action.Results{OK: 1, Reason: "410", Disable: true}, p.now)
	case "take":
		p.b, p.got = p.b.Take(int(p.number(words[1])), p.now)
	case "return":
		p.b = p.b.Return(int(p.number(words[1])))
	case "pause":
		until := time.Time{}
		if d := span("for"); d > 0 {
			until = p.now.Add(d)
		}
		p.b = p.b.Pause("ana", "maintenance", until, p.now)
	case "resume":
		p.b = p.b.Resume(p.now)
	case "enable":
		p.b = p.b.Enable()
	case "reset":
		p.b = p.b.Reset(p.now)
	default:
		p.t.Fatalf("%q is not a command", words[0])
	}
	if words[0] != "take" {
		p.got = -1
	}
}

// state returns the bucket for people.
func (p *player) state() string {
	b := p.b
	s := fmt.Sprintf("%s %.4g/s of %.4g, %.4g tokens", p.now.Sub(epoch), b.Rate(), b.Full(), b.Tokens)
	if p.got >= 0 {
		s += fmt.Sprintf(", got %d", p.got)
	}
	if !b.Metered() {
		s += ", not metered"
	}
	if b.HalfOpen() {
		s += ", half-open"
	}
	if n := b.OK + b.Bad; n > 0 {
		s += fmt.Sprintf(", %d of %d bad", b.Bad, n)
	}
	if b.PausedBy != "" {
		s += ", paused by " + b.PausedBy
		if !b.PauseUntil.IsZero() {
			s += " until " + b.PauseUntil.Sub(epoch).String()
		}
	}
	if b.Disabled() {
		s += ", disabled"
	}
	if b.Reason != "" {
		s += ": " + b.Reason
	}
	return s
}

// TestTokensIssuedAreBounded: whatever instances request, report, give back or lose, no span of time sees more than
// r·t + B.
func TestTokensIssuedAreBounded(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		rate := rapid.Float64Range(0.01, 1000).Draw(t, "rate")
		burst := rapid.IntRange(0, 500).Draw(t, "burst")
		full := math.Max(rate, 1)
		if burst > 0 {
			full = float64(burst)
		}
		now := epoch
		limit := action.Limit{Rate: rate, Burst: burst}
		b := action.Bucket{}.With(limit, now)
		held := make([]int, 3) // tokens of each instance
		type moment struct {
			at  time.Time
			net float64
		}
		history, net := []moment{{now, 0}}, 0.0
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			now = now.Add(time.Duration(rapid.IntRange(0, 20_000).Draw(t, "ms")) * time.Millisecond)
			i := rapid.IntRange(0, 2).Draw(t, "instance")
			switch rapid.IntRange(0, 6).Draw(t, "what") {
			case 0: // it crashes with its tokens
				held[i] = 0
			case 1:
				b = b.Observe(action.Results{Bad: rapid.IntRange(1, 30).Draw(t, "bad"), Over: time.Second}, now)
			case 2:
				b = b.Observe(action.Results{OK: rapid.IntRange(1, 300).Draw(t, "ok"), Over: time.Second}, now)
			case 3:
				b = b.Observe(action.Results{Bad: 1, Pause: now.Add(time.Duration(rapid.IntRange(1, 100).Draw(t, "pause")) * time.Second)}, now)
			case 4:
				b = b.Reset(now).Resume(now).Enable()
			default: // it uses some, gives the rest back, and requests more
				unused := rapid.IntRange(0, held[i]).Draw(t, "unused")
				b = b.With(limit, now).Return(unused)
				b, held[i] = b.Take(rapid.IntRange(0, 1000).Draw(t, "want"), now)
				net += float64(held[i] - unused)
			}
			if b.Tokens < 0 || b.Rate() > rate*(1+1e-9) || b.Rate() < b.Probe()*(1-1e-9) {
				t.Fatalf("%v tokens at %v/s, configured %v/s", b.Tokens, b.Rate(), rate)
			}
			for _, then := range history {
				if most := rate*now.Sub(then.at).Seconds() + full; net-then.net > most*(1+1e-9)+1e-6 {
					t.Fatalf("%v tokens in %s, want at most %v", net-then.net, now.Sub(then.at), most)
				}
			}
			history = append(history, moment{now, net})
		}
	})
}

// TestSlotsHeldAreBounded: whatever instances request, answers that they lose and crashes, no more than C run.
func TestSlotsHeldAreBounded(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		type instance struct {
			slots, busy  int // as it knows
			held, wanted int // by the books
		}
		capacity := rapid.IntRange(1, 20).Draw(t, "capacity")
		all := make([]instance, rapid.IntRange(1, 5).Draw(t, "instances"))
		for range rapid.IntRange(1, 100).Draw(t, "steps") {
			i := &all[rapid.IntRange(0, len(all)-1).Draw(t, "instance")]
			switch rapid.IntRange(0, 5).Draw(t, "what") {
			case 0: // it dies, and is buried
				*i = instance{}
			case 1:
				i.busy = rapid.IntRange(i.busy, max(i.busy, i.slots)).Draw(t, "start")
			case 2:
				i.busy = rapid.IntRange(0, i.busy).Draw(t, "end")
			default:
				pool := action.SlotPool{Capacity: capacity, Live: len(all), Had: i.held}
				for n := range all {
					if other := &all[n]; other != i {
						pool.Others, pool.Wanted = pool.Others+other.held, pool.Wanted || other.wanted > 0
					}
				}
				want := rapid.IntRange(0, 30).Draw(t, "want")
				slots, held := pool.Share(action.SlotAsk{Held: i.slots, Busy: i.busy, Want: want})
				i.held, i.wanted = held, 0
				if slots < i.slots+want {
					i.wanted = want
				}
				i.slots = slots
				if rapid.Bool().Draw(t, "lost answer") {
					i.slots = i.busy
				}
			}
			held, busy := 0, 0
			for _, one := range all {
				held, busy = held+one.held, busy+one.busy
			}
			if held > capacity || busy > capacity {
				t.Fatalf("%d slots are held and %d attempts run, want at most %d: %+v", held, busy, capacity, all)
			}
		}
	})
}

// TestSlotsAreAllLeased checks that a lone instance gets all slots within a few requests, and that two share evenly.
func TestSlotsAreAllLeased(t *testing.T) {
	t.Parallel()
	for _, capacity := range []int{1, 2, 7, 40, 100} {
		one := 0
		for range 3 {
			one, _ = action.SlotPool{Capacity: capacity, Live: 1, Had: one}.Share(action.SlotAsk{Held: one, Want: 1000})
		}
		if one != capacity {
			t.Errorf("alone it has %d of %d", one, capacity)
		}
		two := 0
		for range 6 { // each requests slots, and attempts end in between
			two, _ = action.SlotPool{Capacity: capacity, Live: 2, Had: two, Others: one, Wanted: true}.Share(action.SlotAsk{Held: two, Want: 1000})
			one, _ = action.SlotPool{Capacity: capacity, Live: 2, Had: one, Others: two, Wanted: true}.Share(action.SlotAsk{Held: one, Want: 1000})
		}
		if one+two != capacity || capacity > 1 && one-two > 1 {
			t.Errorf("of %d one has %d, the other %d", capacity, one, two)
		}
	}
}
