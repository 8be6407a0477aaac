package main

import "math/rand/v2"

// dice draws what a program does. The same seed draws the same.
type dice struct{ *rand.Rand }

func newDice(seed uint64) dice { return dice{rand.New(rand.NewPCG(seed, 0))} }

// once returns true once in n draws.
func (d dice) once(n int) bool { return d.IntN(n) == 0 }

// between draws a number, both ends included.
func (d dice) between(low, high int) int { return low + d.IntN(high-low+1) }

// pick draws one of a list.
func pick[T any](d dice, list ...T) T { return list[d.IntN(len(list))] }
