// Command compare plays random programs on two pipeline engines and compares what they answer. Command
// former builds it with the engine of an earlier commit, and runs it; package oracle is how it uses both.
package main

import (
	"flag"
	"fmt"
	"os"
	"runtime"
	"sync"
	"time"
)

func main() {
	programs := flag.Int("programs", 1000, "how many programs to play")
	first := flag.Uint64("first", 1, "seed of the first program")
	seed := flag.Uint64("seed", 0, "play the program with this seed only, and print what it does")
	workers := flag.Int("workers", 0, "programs that are played at a time; 0: one per processor")
	flag.Parse()
	if *workers <= 0 {
		*workers = runtime.GOMAXPROCS(0)
	}
	if *seed > 0 {
		*programs, *first = 1, *seed
	}
	os.Exit(run(*first, *programs, *workers, *seed > 0))
}

// most is how many programs that show a difference are reported; more would say the same.
const most = 5

// run plays programs, reports the differences, and returns the exit status.
func run(first uint64, programs, workers int, verbose bool) int {
	began := time.Now()
	seeds, results := make(chan uint64), make(chan result)
	var group sync.WaitGroup
	for range workers {
		group.Go(func() {
			for seed := range seeds {
				results <- playOne(seed)
			}
		})
	}
	stop := make(chan struct{})
	go func() {
		defer close(results)
		defer group.Wait()
		defer close(seeds)
		for i := range programs {
			select {
			case seeds <- first + uint64(i):
			case <-stop:
				return
			}
		}
	}()
	var sum result
	differ := 0
	for r := range results {
		sum.rows, sum.ops = sum.rows+r.rows, sum.ops+r.ops
		sum.count++
		if verbose {
			r.print()
		}
		if r.err == nil && r.found == nil {
			continue
		}
		r.report()
		if differ++; differ == most {
			close(stop)
		}
	}
	fmt.Printf("%d programs, %d rows, %d things done; %d programs differ (%s)\n", sum.count, sum.rows, sum.ops, differ, time.Since(began).Round(time.Second))
	if differ > 0 {
		return 1
	}
	return 0
}

// result is how one program went.
type result struct {
	seed             uint64
	count, rows, ops int
	played           []op
	found            *difference
	err              error
}

// playOne plays the program of a seed.
func playOne(seed uint64) result {
	p, err := newPlayer(seed)
	if err == nil {
		p.play()
	}
	if err != nil {
		return result{seed: seed, err: err}
	}
	if p.found == nil && p.stuck != nil {
		err = fmt.Errorf("both engines refuse what the program does: %w", p.stuck)
	}
	return result{seed: seed, rows: len(p.log), ops: len(p.ops), played: p.ops, found: p.found, err: err}
}

func (r result) print() {
	for i, o := range r.played {
		fmt.Printf("%4d %s\n", i, o)
	}
}

// report prints what a program has found, as short as it is found to be.
func (r result) report() {
	fmt.Printf("program %d\n", r.seed)
	if r.err != nil {
		fmt.Printf("  %v\n", r.err)
	}
	if r.found != nil {
		fmt.Println(r.found)
		ops, found := shrink(r.played)
		if found != nil && len(ops) < len(r.played) {
			fmt.Printf("with %d of the %d things that it does:\n", len(ops), len(r.played))
			for _, o := range ops {
				fmt.Printf("  %s\n", o)
			}
			fmt.Println(found)
		}
	}
	fmt.Printf("alone: go run ./test/former -seed %d\n\n", r.seed)
}
