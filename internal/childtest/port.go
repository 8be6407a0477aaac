package childtest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
)

// Ports below those that a system chooses for port 0 (from 32768 on Linux, from 49152 elsewhere): no other test takes one
// by chance.
const (
	firstPort = 20_000
	ports     = 12_000
)

var given sync.Map // ports, so that no two callers in this process get one

// FreePort returns a port on loopback at which nothing listens, for a program that is started later.
func FreePort(ctx context.Context) (int, error) {
	var failed error
	for range 100 {
		port := firstPort + rand.IntN(ports)
		listener, err := new(net.ListenConfig).Listen(ctx, "tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			failed = err
			continue
		}
		if err := listener.Close(); err != nil {
			return 0, err
		}
		if _, twice := given.LoadOrStore(port, true); !twice {
			return port, nil
		}
	}
	return 0, errors.Join(errors.New("no free port found"), failed)
}
