//go:build race

package pipeline

// raceDetector is set when the race detector watches, under which the search takes ten times as long.
const raceDetector = true
