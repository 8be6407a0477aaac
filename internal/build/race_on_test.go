//go:build race

package build_test

// detector is how many times as much is allocated with the race detector, under which pools keep nothing.
const detector = 12
