package service

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/ledger"
	"github.com/waybill-dev/waybill/internal/queue"
	"github.com/waybill-dev/waybill/internal/store"
)

// StatusView is the state of the whole system: whether it keeps up and, if not, what is slow.
type StatusView struct {
	Now       time.Time       `json:"now"`     // the ledger's
	KeepsUp   bool            `json:"keepsUp"` // no trouble blocks any work
	Troubles  []Trouble       `json:"troubles"`
	Processes []InstanceView  `json:"processes"`
	Handlers  []HandlerView   `json:"handlers"` // those with live actions or with a conductor
	Lanes     []queue.Limiter `json:"lanes"`    // slowed, paused or disabled
	NextDue   time.Time       `json:"nextDue,omitzero"`
	Rescues   map[string]int  `json:"rescues"` // in the last hour, by code
	Strain    store.Strain    `json:"strain"`
	// Partitions is the state of the history's partitions; nil: the log has none.
	Partitions *queue.Partitions `json:"partitions,omitempty"`
}

// InstanceView is a process that runs roles.
type InstanceView struct {
	Name     string        `json:"name"`
	Version  string        `json:"version"`
	Roles    []string      `json:"roles"`
	Handlers []string      `json:"handlers"` // handlers that it serves
	Since    time.Time     `json:"since"`
	State    string        `json:"state"`             // alive | draining | dead (no instance has removed it yet)
	Guard    string        `json:"guard"`             // how its end is noticed: lock (at once), lease (within 20 s), home (by waybill.lock)
	LeaseEnd time.Time     `json:"leaseEnd,omitzero"` // time at which it counts as dead without a further heartbeat; zero: unknown
	Reload   *queue.Reload `json:"reload,omitempty"`
	Broker   string        `json:"broker,omitempty"` // address of its service broker
	holder   *Holder       // with guard home
}

// Holder describes the process that holds a home.
type Holder struct {
	PID      int
	Heard    time.Time // time of its last sign of life; zero: unknown
	LeaseEnd time.Time // time at which it counts as dead without a further sign of life; zero: unknown
}

// Lease returns how stale an instance is: when its lease ends or has ended; "" for one without a lease.
func (p InstanceView) Lease(now time.Time) string {
	switch left := p.LeaseEnd.Sub(now); {
	case p.LeaseEnd.IsZero():
		return ""
	case left > 0:
		return "ends in " + Took(left)
	default:
		return "ended " + Took(-left) + " ago"
	}
}

// HandlerView is the live actions of a handler, and the number of processes that serve it.
type HandlerView struct {
	queue.Backlog
	Served int `json:"served"`
}

// statusPart bounds the cost of reading the status, which counts every live row: reading it may take a 20th of the time,
// with any number of clients.
const statusPart = 20

// statusCache keeps the last status.
type statusCache struct {
	mu   sync.Mutex
	read time.Time
	took time.Duration
	last queue.Status
}

// readStatus returns the status. It returns the last one again as long as reading it would exceed statusPart.
func (k *statusCache) readStatus(ctx context.Context, l *ledger.Ledger) (queue.Status, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.read.IsZero() && time.Since(k.read) < statusPart*k.took {
		return k.last, nil
	}
	began := time.Now()
	last, err := l.Status(ctx)
	if err != nil {
		return queue.Status{}, err
	}
	k.last, k.read, k.took = last, time.Now(), time.Since(began)
	return last, nil
}

// Status returns whether everything keeps up and, if not, what is slow.
func (s *Service) Status(ctx context.Context) (StatusView, error) {
	now, err := s.pulse.readStatus(ctx, s.ledger)
	if err != nil {
		return StatusView{}, err
	}
	lanes, err := s.ledger.Limits(ctx)
	if err != nil {
		return StatusView{}, err
	}
	v := StatusView{Now: now.Now, Lanes: []queue.Limiter{}, Troubles: []Trouble{}, NextDue: now.NextDue,
		Rescues: now.Rescues, Strain: now.Strain}
	for _, l := range lanes {
		if l.Troubled() {
			v.Lanes = append(v.Lanes, l)
		}
	}
	if !s.ledger.Embedded() {
		partitions, err := s.ledger.Partitions(ctx, s.retention)
		if err != nil {
			return StatusView{}, err
		}
		v.Partitions = &partitions
	}
	v.Processes = s.instanceViews(now.Instances, now.Now)
	v.Handlers = handlerViews(now.Backlogs, v.Processes)
	services, err := s.serviceTroubles(ctx)
	if err != nil {
		return StatusView{}, err
	}
	promoted, err := s.promotionNames(ctx)
	if err != nil {
		return StatusView{}, err
	}
	away, err := s.hostTroubles(ctx, now)
	if err != nil {
		return StatusView{}, err
	}
	// never nil: JSON has a list
	v.Troubles = append([]Trouble{}, slices.Concat(v.Troubles, services, away, v.deadTroubles(), v.unservedTroubles(),
		v.promoterTroubles(promoted), v.laneTroubles(), v.lateTroubles(lanes), blobTroubles(s.allReports(now)), v.strainTroubles(), v.partitionTroubles(),
		reportTroubles(s.allReports(now)))...)
	slices.SortStableFunc(v.Troubles, func(a, b Trouble) int { return cmp.Compare(rank(a.Kind), rank(b.Kind)) })
	v.KeepsUp = !slices.ContainsFunc(v.Troubles, func(t Trouble) bool { return !t.Warning })
	return v, nil
}

// Instances returns the processes that run roles. Unlike Status it is cheap: it reads only their rows.
func (s *Service) Instances(ctx context.Context) ([]InstanceView, error) {
	rows, err := s.ledger.Instances(ctx)
	if err != nil {
		return nil, err
	}
	now, err := s.ledger.Now(ctx)
	if err != nil {
		return nil, err
	}
	return s.instanceViews(rows, now), nil
}

// instanceViews merges the rows of each process, which has one for every role.
func (s *Service) instanceViews(instances []queue.InstanceRow, now time.Time) []InstanceView {
	var holder *Holder
	if s.holder != nil {
		if holder = s.holder(); holder == nil {
			return []InstanceView{} // the rows are those of a killed process
		}
	}
	byName := map[string]*InstanceView{}
	for _, i := range instances {
		p := byName[i.Name]
		if p == nil {
			p = &InstanceView{Name: i.Name, Version: i.Version, Since: i.StartedAt, State: "alive", Guard: "lock", Reload: i.Report.Reload}
			byName[i.Name] = p
		}
		if i.Report.Broker != nil {
			p.Broker = i.Report.Broker.URL
		}
		p.Roles, p.Handlers = slices.Concat(p.Roles, i.Roles, i.Report.Roles), append(p.Handlers, i.Handlers...)
		if i.StartedAt.Before(p.Since) {
			p.Since = i.StartedAt
		}
		if holder != nil {
			i.LeaseEnd, p.holder = holder.LeaseEnd, holder
		}
		if p.LeaseEnd.IsZero() || i.LeaseEnd.Before(p.LeaseEnd) {
			p.LeaseEnd = i.LeaseEnd
		}
		p.Guard = s.guardOf(i, p.Guard)
		switch {
		case !i.LeaseEnd.IsZero() && !i.LeaseEnd.After(now):
			p.State = "dead"
		case i.Draining && p.State == "alive":
			p.State = "draining"
		}
	}
	all := []InstanceView{}
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		p := byName[name]
		slices.Sort(p.Roles)
		slices.Sort(p.Handlers)
		p.Roles, p.Handlers = slices.Compact(p.Roles), slices.Compact(p.Handlers)
		all = append(all, *p)
	}
	return all
}

// guardOf returns how the end of an instance is detected; before is the guard of its process's other rows.
func (s *Service) guardOf(i queue.InstanceRow, before string) string {
	switch {
	case s.ledger.Embedded():
		return "home"
	case !i.Guarded:
		return "lease"
	}
	return before
}

// handlerViews returns the backlog of each handler with the number of processes that serve it.
func handlerViews(backlogs []queue.Backlog, processes []InstanceView) []HandlerView {
	by := map[string]*HandlerView{}
	for _, b := range backlogs {
		by[b.Handler] = &HandlerView{Backlog: b}
	}
	for _, p := range processes {
		if p.State != "alive" {
			continue
		}
		for _, handler := range p.Handlers {
			if by[handler] == nil {
				by[handler] = &HandlerView{Backlog: queue.Backlog{Handler: handler, Counts: map[action.Status]int{}}}
			}
			by[handler].Served++
		}
	}
	all := []HandlerView{}
	for _, handler := range slices.Sorted(maps.Keys(by)) {
		all = append(all, *by[handler])
	}
	return all
}
