package server

import (
	"time"

	"golang.org/x/sys/unix"
)

// Time limits of a connection. Answers have no limit, since clients follow streams for days.
const (
	headerTimeout = 10 * time.Second
	idleTimeout   = 2 * time.Minute
	drainTimeout  = 8 * time.Second // time of requests in flight when the process ends
)

// Bounds of connections.
const (
	mostHeader = 64 << 10 // bytes
	mostOpen   = 4096     // connections at a time, if the process may open twice as many files
)

// mostConnections returns how many connections are served at a time: at most half of the files that this process may open,
// so that clients cannot keep it from opening its log. Further connections wait to be accepted.
func mostConnections() int {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return mostOpen / 4
	}
	return int(min(mostOpen, max(8, limit.Cur/2)))
}
