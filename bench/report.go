package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Round is one measurement: so many operations in so many seconds.
type Round struct {
	Ops        int     `json:"ops"`
	Seconds    float64 `json:"seconds"`
	PerSecond  float64 `json:"per_second"`
	P50        float64 `json:"p50_ms,omitempty"`
	P99        float64 `json:"p99_ms,omitempty"`
	Longest    float64 `json:"longest_ms,omitempty"`
	WALBytes   int64   `json:"wal_bytes,omitempty"`
	Bytes      float64 `json:"bytes,omitempty"`         // on disk for each operation
	HeapMB     float64 `json:"heap_mb,omitempty"`       // in use, after a collection
	Buffers    int64   `json:"buffers,omitempty"`       // buffers of all connections; those still open may lag by a second
	ClientCPU  float64 `json:"client_cpu_us,omitempty"` // time of this process for each operation, which no neighbour changes
	Goroutines float64 `json:"goroutines,omitempty"`
	ServerCPU  float64 `json:"server_cpu_us,omitempty"` // time of the server's processes, where they are on this machine
}

// measured makes a round of what was done since the start.
func measured(ops int, since time.Time) Round {
	seconds := time.Since(since).Seconds()
	return Round{Ops: ops, Seconds: seconds, PerSecond: float64(ops) / seconds}
}

// Result is one figure: several rounds of one subject.
type Result struct {
	Bench    string            `json:"bench"`
	Subject  string            `json:"subject"` // what was measured, such as "waybill, batch 100" or "River"
	Version  string            `json:"version"` // version of the subject
	Driver   string            `json:"driver,omitempty"`
	Server   string            `json:"server,omitempty"`
	Settings map[string]string `json:"settings,omitempty"`
	Unit     string            `json:"unit"` // unit of PerSecond, such as entries/s
	Machine  string            `json:"machine"`
	Rounds   []Round           `json:"rounds"`
	Median   float64           `json:"median"`
	Spread   [2]float64        `json:"spread"` // the lowest and the highest round
	Rival    string            `json:"rival,omitempty"`
	Ratio    float64           `json:"ratio,omitempty"`  // ratio of medians, to the rival of the same run
	Target   string            `json:"target,omitempty"` // what the figure is to be
	Pass     *bool             `json:"pass,omitempty"`   // whether it is

	limit *float64 // upper limit of the figure; nil: none
}

// summarize fills in the median and the spread of the rates.
func (r *Result) summarize() { r.summarizeBy(func(round Round) float64 { return round.PerSecond }) }

// summarizeBy fills in the median and the spread of something else.
func (r *Result) summarizeBy(figure func(Round) float64) {
	figures := make([]float64, len(r.Rounds))
	for i, round := range r.Rounds {
		figures[i] = figure(round)
	}
	slices.Sort(figures)
	r.Machine = machine()
	if r.Version == "" {
		r.Version = version()
	}
	r.Median, r.Spread = figures[len(figures)/2], [2]float64{figures[0], figures[len(figures)-1]}
}

// against sets the ratio to the rival of the same run, and whether it reaches the target (0: no
// target).
func (r *Result) against(rival Result, target float64) {
	r.Ratio, r.Rival = r.Median/rival.Median, rival.Subject
	if target > 0 {
		r.judge(fmt.Sprintf("at least %g × %s", target, rival.Subject), r.Ratio >= target)
	}
}

// judge sets the target of the figure and whether it was reached.
func (r *Result) judge(target string, pass bool) { r.Target, r.Pass = target, &pass }

// version returns the revision of this repository that was measured.
func version() string {
	out, err := exec.CommandContext(context.Background(), "git", "describe", "--always", "--dirty").Output()
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(out))
}

// machine returns the size of this computer, since no figure means anything without it.
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

// print writes the results as a table, under the machine and the server.
func print(w io.Writer, results []Result) {
	first := results[0]
	fmt.Fprintf(w, "%s; %s; median of %d rounds (lowest to highest)\n\n", machine(), first.Server, len(first.Rounds))
	fmt.Fprintf(w, "| %s | driver | median | spread | CPU µs | ratio | target |\n|---|---|---:|---|---:|---|---|\n", first.Bench)
	for _, r := range results {
		ratio, target := "–", "–"
		if r.Ratio != 0 {
			ratio = fmt.Sprintf("%.2f × %s", r.Ratio, r.Rival)
		}
		if r.Pass != nil {
			target = r.Target + map[bool]string{true: ": met", false: ": not met"}[*r.Pass]
		}
		fmt.Fprintf(w, "| %s | %s | %s %s | %s to %s | %s | %s | %s |\n", r.Subject, r.Driver,
			grouped(r.Median), r.Unit, grouped(r.Spread[0]), grouped(r.Spread[1]), r.cpu(), ratio, target)
	}
}

// cpu returns the median CPU time of an operation, client + server.
func (r *Result) cpu() string {
	client, server := r.middle(func(r Round) float64 { return r.ClientCPU }), r.middle(func(r Round) float64 { return r.ServerCPU })
	if client == 0 {
		return "–"
	}
	return fmt.Sprintf("%.0f + %.0f", client, server)
}

// middle returns the median of a figure over the rounds.
func (r *Result) middle(figure func(Round) float64) float64 {
	figures := make([]float64, len(r.Rounds))
	for i, round := range r.Rounds {
		figures[i] = figure(round)
	}
	slices.Sort(figures)
	return figures[len(figures)/2]
}

// grouped writes a number for people: a large one whole with thousands apart, such as 12,345.
func grouped(f float64) string {
	if f < 100 {
		return strconv.FormatFloat(f, 'f', 2, 64)
	}
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
