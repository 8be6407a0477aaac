//go:build !race

package build_test

// detector is the factor by which the race detector raises allocations, since pools keep nothing under it.
const detector = 1
