package step

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/pipeline"
)

// State is a host's report about a service.
type State struct {
	Release  string `json:"release,omitempty"`  // current; "" is none
	Previous string `json:"previous,omitempty"` // the one before
	Ledger   string `json:"ledger,omitempty"`   // the ledger whose fence the host has
	// rank of the fence: usually the deployment's number, and above queue.EraBits the era of its log
	Rank       int64     `json:"rank,omitempty"`
	Deployment string    `json:"deployment,omitempty"` // deployment of the fence, such as greeter#9
	Busy       bool      `json:"busy,omitempty"`       // the host program is at work
	Unfinished bool      `json:"unfinished,omitempty"` // a switch was begun and has not ended
	Supervisor int       `json:"supervisor,omitempty"` // process id; 0: none lives
	Service    int       `json:"service,omitempty"`    // process id, and its group's; 0: not up
	Started    time.Time `json:"started,omitzero"`     // last start of the service, by the host's clock; zero: not up
	Running    string    `json:"running,omitempty"`    // the release whose service is up
	Restarts   int       `json:"restarts,omitempty"`   // restarts of the service by its supervisor
	Exit       string    `json:"exit,omitempty"`       // last exit status of the service
}

// Look inspects a service on a host. It changes nothing that is deployed. known is false when this process cannot
// reach the host, or nothing was deployed in the folder of a local host: another home may have a folder of that name.
// An ssh host without the service has the zero State.
func (h *Hosts) Look(ctx context.Context, at pipeline.Place, service string) (state State, known bool, err error) {
	if at.Host.Remote() && h.SSH == nil {
		return State{}, false, nil
	}
	host, folder, err := h.connect(at, service)
	if err != nil {
		return State{}, false, err
	}
	defer host.Close()
	p := &program{host: host, name: at.Host.Name, folder: folder}
	if there, err := p.deployed(ctx); err != nil || !there {
		return State{}, err == nil && at.Host.Remote(), err
	}
	answer, err := p.call(ctx, nil, "status")
	if err != nil {
		return State{}, false, err
	}
	return stateOf(answer), true, nil
}

// Verify reads the files of a service's current release on a host, and returns the paths of those that are not the ones of its
// artifact, at most 20; nil if nothing was deployed there.
func (h *Hosts) Verify(ctx context.Context, at pipeline.Place, service string) (changed []string, err error) {
	if at.Host.Remote() && h.SSH == nil {
		return nil, fault.New(fault.Unavailable, "host %s: this process reaches no ssh hosts", at.Host.Name)
	}
	host, folder, err := h.connect(at, service)
	if err != nil {
		return nil, err
	}
	defer host.Close()
	p := &program{host: host, name: at.Host.Name, folder: folder}
	if there, err := p.deployed(ctx); err != nil || !there {
		return nil, err
	}
	answer, err := p.call(ctx, nil, "verify")
	return answer.paths("changed"), err
}

// TakeOver makes a service on a host follow the log with an id, whichever log did before: that one is refused
// from now on. It changes nothing that runs. by names the person who decides it.
func (h *Hosts) TakeOver(ctx context.Context, at pipeline.Place, service, ledger, by string) error {
	host, folder, err := h.connect(at, service)
	if err != nil {
		return err
	}
	defer host.Close()
	p := &program{host: host, name: at.Host.Name, folder: folder}
	_, err = p.call(ctx, nil, "adopt", pair("action", "take-over"), pair("ledger", ledger), pair("name", takenOver+by))
	return err
}

// takenOver begins the name in the fence of a host that was taken over and not deployed to since.
const takenOver = "taken over by "

// Current returns the name of the release that a host on this computer has switched to; "" if it
// has none, or the release's files are gone. known is false if the host is not this computer, or
// lacks the service's folder: another home may have it.
func (h *Hosts) Current(host pipeline.Host, service string) (release string, known bool, err error) {
	dir, foreign := localDir(h.Home, host)
	if foreign != nil {
		return "", false, nil //nolint:nilerr // the state of a host elsewhere is not known
	}
	if _, err := os.Stat(filepath.Join(dir, service)); errors.Is(err, fs.ErrNotExist) {
		return "", false, nil
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

func stateOf(answer report) State {
	number := func(key string) int {
		n, _ := strconv.Atoi(answer.first(key)) // absent is 0
		return n
	}
	s := State{Release: answer.first("current"), Previous: answer.first("previous"), Busy: number("busy") == 1,
		Unfinished: number("armed") == 1, Supervisor: number("supervisor"), Service: number("service"),
		Running: answer.first("release"), Restarts: number("restarts"), Exit: answer.first("exit")}
	if started, err := strconv.ParseInt(answer.first("started"), 10, 64); err == nil && started > 0 {
		s.Started = time.Unix(started, 0).UTC()
	}
	if fence := strings.SplitN(answer.first("fence"), " ", 3); len(fence) == 3 {
		s.Ledger, s.Deployment = fence[0], fence[2]
		s.Rank, _ = strconv.ParseInt(fence[1], 10, 64)
	}
	return s
}
