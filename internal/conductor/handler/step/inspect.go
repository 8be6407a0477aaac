package step

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/waybill-dev/waybill/internal/command"
	"github.com/waybill-dev/waybill/internal/pipeline"
)

// State is what a host says of a service.
type State struct {
	Release    string `json:"release,omitempty"`    // current; "" is none
	Previous   string `json:"previous,omitempty"`   // the one before
	Ledger     string `json:"ledger,omitempty"`     // the ledger whose fence the host has
	Rank       int64  `json:"rank,omitempty"`       // of the fence: the deployment's number, and above queue.EraBits the era of its log
	Deployment string `json:"deployment,omitempty"` // of the fence, such as greeter#9
	Busy       bool   `json:"busy,omitempty"`       // the host program is at work
	Unfinished bool   `json:"unfinished,omitempty"` // a switch was begun and has not ended
	Supervisor int    `json:"supervisor,omitempty"` // process id; 0: none lives
	Service    int    `json:"service,omitempty"`    // process id, and its group's; 0: not up
	Running    string `json:"running,omitempty"`    // the release whose service is up
	Restarts   int    `json:"restarts,omitempty"`   // of the service by its supervisor
	Exit       string `json:"exit,omitempty"`       // last exit status of the service
}

// Look asks how a service on a host does. known is false when the host is not this computer, or
// nothing was ever deployed there.
func Look(ctx context.Context, home string, host pipeline.Host, service string) (state State, known bool, err error) {
	home, err = filepath.Abs(home)
	if err != nil {
		return State{}, false, err
	}
	dir, foreign := localDir(home, host)
	if foreign != nil {
		return State{}, false, nil //nolint:nilerr // the state of a host elsewhere is not known
	}
	folder := filepath.Join(dir, service)
	if _, err := os.Stat(filepath.Join(folder, ".waybill")); errors.Is(err, fs.ErrNotExist) {
		return State{}, false, nil
	}
	state, err = Inspect(ctx, folder)
	return state, true, err
}

// Current returns the name of the release that a host on this computer has switched to; "" if it
// has none, or the release's files are gone. known is false if the host is not this computer.
func Current(home string, host pipeline.Host, service string) (release string, known bool, err error) {
	home, err = filepath.Abs(home)
	if err != nil {
		return "", false, err
	}
	dir, foreign := localDir(home, host)
	if foreign != nil {
		return "", false, nil //nolint:nilerr // the state of a host elsewhere is not known
	}
	link, err := os.Readlink(filepath.Join(dir, service, "current"))
	if err == nil {
		_, err = os.Stat(filepath.Join(dir, service, link))
	}
	if errors.Is(err, fs.ErrNotExist) {
		return "", true, nil
	}
	return filepath.Base(link), err == nil, err
}

// Inspect asks what runs in the folder of a service on this computer, <host>/<service>. It changes
// nothing that is deployed. A folder without deployments is the zero State.
func Inspect(ctx context.Context, folder string) (State, error) {
	folder, err := filepath.Abs(folder)
	if err != nil {
		return State{}, err
	}
	if _, err := os.Stat(filepath.Join(folder, ".waybill")); errors.Is(err, fs.ErrNotExist) {
		return State{}, nil
	}
	p := &program{host: &command.Local{}, name: filepath.Base(filepath.Dir(folder)), folder: folder}
	answer, err := p.call(ctx, nil, "status")
	if err != nil {
		return State{}, err
	}
	return stateOf(answer), nil
}

func stateOf(answer report) State {
	number := func(key string) int {
		n, _ := strconv.Atoi(answer.first(key)) // absent is 0
		return n
	}
	s := State{Release: answer.first("current"), Previous: answer.first("previous"), Busy: number("busy") == 1,
		Unfinished: number("armed") == 1, Supervisor: number("supervisor"), Service: number("service"),
		Running: answer.first("release"), Restarts: number("restarts"), Exit: answer.first("exit")}
	if fence := strings.SplitN(answer.first("fence"), " ", 3); len(fence) == 3 {
		s.Ledger, s.Deployment = fence[0], fence[2]
		s.Rank, _ = strconv.ParseInt(fence[1], 10, 64)
	}
	return s
}
