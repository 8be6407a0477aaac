package testresult

import (
	"math"
	"strconv"
	"strings"
	"time"
)

// maxDuration is the longest time of a test that is believed.
const maxDuration = 365 * 24 * time.Hour

// seconds reads a number of seconds. Programs that follow the language of the computer write commas: as
// the sign of the fraction if there is one comma or it is the last sign, else between thousands.
// What is not a time is 0.
func seconds(text string) time.Duration {
	text = strings.TrimSpace(text)
	comma, dot := strings.LastIndexByte(text, ','), strings.LastIndexByte(text, '.')
	switch {
	case comma < 0:
	case dot > comma, dot < 0 && strings.Count(text, ",") > 1:
		text = strings.ReplaceAll(text, ",", "")
	default:
		text = strings.ReplaceAll(text[:comma], ".", "") + "." + text[comma+1:]
	}
	value, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsNaN(value) || value < 0 || value > maxDuration.Seconds() {
		return 0
	}
	return time.Duration(math.Round(value * float64(time.Second)))
}

// clock reads a time as .NET writes it: 00:00:01.2345678, with days in front if there are any, 1.00:00:00.
func clock(text string) time.Duration {
	parts := strings.Split(strings.TrimSpace(text), ":")
	if len(parts) != 3 {
		return 0
	}
	days, hours, found := strings.Cut(parts[0], ".")
	if !found {
		days, hours = "0", parts[0]
	}
	var total time.Duration
	for _, part := range []struct {
		text string
		unit time.Duration
	}{{days, 24 * time.Hour}, {hours, time.Hour}, {parts[1], time.Minute}} {
		n, err := strconv.ParseUint(part.text, 10, 16)
		if err != nil {
			return 0
		}
		total += time.Duration(n) * part.unit
	}
	total += seconds(parts[2])
	if total > maxDuration {
		return 0
	}
	return total
}

// addDurations returns the sum, and the largest duration instead of one that does not fit.
func addDurations(a, b time.Duration) time.Duration {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}
