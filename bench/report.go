package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"
)

// Round is one measurement: so many operations in so many seconds.
type Round struct {
	Ops       int     `json:"ops"`
	Seconds   float64 `json:"seconds"`
	PerSecond float64 `json:"per_second"`
}

// measured makes a round of what was done since the start.
func measured(ops int, since time.Time) Round {
	seconds := time.Since(since).Seconds()
	return Round{Ops: ops, Seconds: seconds, PerSecond: float64(ops) / seconds}
}

// Result is one figure: several rounds of one subject.
type Result struct {
	Bench   string  `json:"bench"`
	Subject string  `json:"subject"` // what was measured, such as "waybill, batch 100" or "bare insert, batch 100"
	Driver  string  `json:"driver,omitempty"`
	Unit    string  `json:"unit"` // of PerSecond, such as entries/s
	Machine string  `json:"machine"`
	Rounds  []Round `json:"rounds"`
	Median  float64 `json:"median"`
	Lowest  float64 `json:"lowest"`
	Highest float64 `json:"highest"`
	Ratio   float64 `json:"ratio,omitempty"` // of medians, to the rival of the same run
	Rival   string  `json:"rival,omitempty"`
}

// summarize fills in the median and the spread.
func (r *Result) summarize() {
	rates := make([]float64, len(r.Rounds))
	for i, round := range r.Rounds {
		rates[i] = round.PerSecond
	}
	slices.Sort(rates)
	r.Machine = machine()
	r.Median, r.Lowest, r.Highest = rates[len(rates)/2], rates[0], rates[len(rates)-1]
}

// against sets the ratio to the rival of the same run.
func (r *Result) against(rival Result) {
	r.Ratio, r.Rival = r.Median/rival.Median, rival.Subject
}

// machine is the size of this computer, since no figure means anything without it.
func machine() string {
	memory := "unknown memory"
	if info, err := os.ReadFile("/proc/meminfo"); err == nil {
		var kib int
		if _, err := fmt.Sscanf(string(info), "MemTotal: %d kB", &kib); err == nil {
			memory = fmt.Sprintf("%d GiB", (kib+512*1024)/(1024*1024))
		}
	}
	return fmt.Sprintf("%d cores, %s, %s/%s, %s", runtime.NumCPU(), memory, runtime.GOOS, runtime.GOARCH, runtime.Version())
}

// print writes the results as a table; the machine stands above it.
func print(w io.Writer, results []Result) {
	fmt.Fprintf(w, "%s; median of %d rounds (lowest to highest)\n\n", machine(), len(results[0].Rounds))
	fmt.Fprintf(w, "| %s | driver | per second | spread | ratio |\n|---|---|---:|---|---|\n", results[0].Bench)
	for _, r := range results {
		ratio := "–"
		if r.Ratio != 0 {
			ratio = fmt.Sprintf("%.2f × %s", r.Ratio, r.Rival)
		}
		fmt.Fprintf(w, "| %s | %s | %s %s | %s to %s | %s |\n", r.Subject, r.Driver, grouped(r.Median), r.Unit, grouped(r.Lowest), grouped(r.Highest), ratio)
	}
}

// grouped writes a whole number with thousands apart, such as 12,345.
func grouped(f float64) string {
	digits := fmt.Sprintf("%.0f", f)
	var b strings.Builder
	for i, d := range digits {
		if i > 0 && (len(digits)-i)%3 == 0 {
			b.WriteByte(',')
		}
		b.WriteRune(d)
	}
	return b.String()
}

// save writes the results as JSON, one array.
func save(path string, results []Result) error {
	data, err := json.MarshalIndent(results, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(data, '\n'), 0o644)
}
