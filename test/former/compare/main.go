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
	if _, err := newFormer(name); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	if *workers <= 0 {
		*workers = runtime.GOMAXPROCS(0)
	}
	if *seed > 0 {
		*programs, *first = 1, *seed
	}
	os.Exit(run(*first, *programs, *workers, *seed > 0))
}

// most is how many programs that fail are reported; more would say the same.
const most = 3

// run plays programs, reports what differs, and returns the exit status.
func run(first uint64, programs, workers int, verbose bool) int {
	began, sum := time.Now(), result{}
	stop := make(chan struct{})
	for r := range playAll(first, programs, workers, stop) {
		sum.count++
		sum.rows += r.rows
		sum.things += len(r.ops)
		if verbose {
			r.print()
		}
		if r.stuck == nil && r.found == nil {
			continue
		}
		if sum.fail++; sum.fail <= most {
			r.report()
		}
		if sum.fail == most {
			close(stop)
		}
	}
	fmt.Printf("%d programs of %d things and %d rows: %d differ (%s)\n", sum.count, sum.things, sum.rows, sum.fail,
		time.Since(began).Round(time.Second))
	if sum.fail > 0 {
		return 1
	}
	return 0
}

// playAll plays programs, some at a time, until all are played or stop is closed.
func playAll(first uint64, programs, workers int, stop <-chan struct{}) <-chan result {
	seeds, results := make(chan uint64), make(chan result)
	var group sync.WaitGroup
	for range workers {
		group.Go(func() {
			for seed := range seeds {
				results <- playOne(seed)
			}
		})
	}
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
	return results
}

// result is how one program went, or all together.
type result struct {
	*player
	seed                      uint64
	count, rows, things, fail int
}

// playOne plays the program of a seed.
func playOne(seed uint64) result {
	p := newPlayer(seed, func() engine {
		then, err := newFormer(name)
		if err != nil {
			panic(err) // main has made one before
		}
		return then
	})
	p.play()
	return result{player: p, seed: seed, rows: len(p.log)}
}

func (r result) print() {
	for i, o := range r.ops {
		fmt.Printf("%4d %s\n", i, o)
	}
}

// report prints what a program has found, and a part of the program that shows it.
func (r result) report() {
	fmt.Printf("program %d: run it alone with go run ./test/former -seed %d\n", r.seed, r.seed)
	if r.found == nil {
		fmt.Printf("both engines refuse what the program does: %v\n\n", r.stuck)
		return
	}
	ops, found := shrink(r.ops, r.other)
	if found == nil { // it takes more than the ops, such as the order of a map
		fmt.Printf("what it does alone does not show this again:\n%s\n\n", r.found)
		return
	}
	fmt.Printf("%d of the %d things that it does show a difference:\n", len(ops), len(r.ops))
	for _, o := range ops {
		fmt.Printf("  %s\n", o)
	}
	fmt.Printf("%s\n\n", found)
}
