package server

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/ledger"
)

// StatusView says whether everything keeps up, and if not, who is slow.
type StatusView struct {
	Now       time.Time        `json:"now"`     // the ledger's
	KeepsUp   bool             `json:"keepsUp"` // nothing waits that should not
	Troubles  []Trouble        `json:"troubles"`
	Processes []InstanceView   `json:"processes"`
	Handlers  []HandlerView    `json:"handlers"` // those with live actions, and those that are served
	Lanes     []ledger.Limiter `json:"lanes"`    // slowed, paused or disabled
	NextDue   time.Time        `json:"nextDue,omitzero"`
	Rescues   map[string]int   `json:"rescues"` // of the last hour, by code
	Strain    ledger.Strain    `json:"strain"`
	// Partitions is how history is kept; nil: the log has none.
	Partitions *ledger.Partitions `json:"partitions,omitempty"`
}

// InstanceView is a process that runs roles.
type InstanceView struct {
	Name     string         `json:"name"`
	Version  string         `json:"version"`
	Roles    []string       `json:"roles"`
	Handlers []string       `json:"handlers"` // that it serves
	Since    time.Time      `json:"since"`
	State    string         `json:"state"` // alive | draining | dead: nobody has taken it out yet
	Guard    string         `json:"guard"` // lock: its end is seen at once; lease: within 20 s; home: by waybill.lock
	Reload   *ledger.Reload `json:"reload,omitempty"`
}

// HandlerView is what lives at a handler, and how many processes serve it.
type HandlerView struct {
	ledger.Backlog
	Served int `json:"served"`
}

// statusPart is the part of the time that reading the status may take, however many ask: it counts every live row.
const statusPart = 20

// pulse is the last status that was read.
type pulse struct {
	mu   sync.Mutex
	read time.Time
	took time.Duration
	last ledger.Status
}

// now reads the status, or answers with the last one while reading again would cost too much.
func (k *pulse) now(ctx context.Context, l *ledger.Ledger) (ledger.Status, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.read.IsZero() && time.Since(k.read) < statusPart*k.took {
		return k.last, nil
	}
	began := time.Now()
	last, err := l.Status(ctx)
	if err != nil {
		return ledger.Status{}, err
	}
	k.last, k.read, k.took = last, time.Now(), time.Since(began)
	return last, nil
}

// Status says whether everything keeps up, and if not, who is slow.
func (s *Service) Status(ctx context.Context) (StatusView, error) {
	now, err := s.pulse.now(ctx, s.ledger)
	if err != nil {
		return StatusView{}, err
	}
	lanes, err := s.ledger.Limits(ctx)
	if err != nil {
		return StatusView{}, err
	}
	v := StatusView{Now: now.Now, Lanes: []ledger.Limiter{}, Troubles: []Trouble{}, NextDue: now.NextDue, Rescues: now.Rescues, Strain: now.Strain}
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
	v.Processes = s.processes(now.Instances, now.Now)
	v.Handlers = served(now.Backlogs, v.Processes)
	services, err := s.services(ctx)
	if err != nil {
		return StatusView{}, err
	}
	away, err := s.hostsAway(ctx, now)
	if err != nil {
		return StatusView{}, err
	}
	v.Troubles = slices.Concat([]Trouble{}, v.Troubles, services, away, v.unserved(), v.laneTroubles(), v.late(lanes), blobTroubles(s.reports(now)), v.strained(), v.partitioned(), told(s.reports(now)))
	slices.SortStableFunc(v.Troubles, func(a, b Trouble) int { return cmp.Compare(rank(a.Kind), rank(b.Kind)) })
	v.KeepsUp = !slices.ContainsFunc(v.Troubles, func(t Trouble) bool { return !t.Warning })
	return v, nil
}

// Instances lists the processes that run roles. It reads nothing else, and costs little.
func (s *Service) Instances(ctx context.Context) ([]InstanceView, error) {
	rows, err := s.ledger.Instances(ctx)
	if err != nil {
		return nil, err
	}
	now, err := s.ledger.Now(ctx)
	if err != nil {
		return nil, err
	}
	return s.processes(rows, now), nil
}

// processes puts the instances of each process together: every role is one.
func (s *Service) processes(instances []ledger.InstanceRow, now time.Time) []InstanceView {
	if s.idle != nil && s.idle() {
		return []InstanceView{} // what stands there is of one that was killed
	}
	byName := map[string]*InstanceView{}
	for _, i := range instances {
		p := byName[i.Name]
		if p == nil {
			p = &InstanceView{Name: i.Name, Version: i.Version, Since: i.StartedAt, State: "alive", Guard: "lock", Reload: i.Report.Reload}
			byName[i.Name] = p
		}
		p.Roles, p.Handlers = append(p.Roles, i.Roles...), append(p.Handlers, i.Handlers...)
		if i.StartedAt.Before(p.Since) {
			p.Since = i.StartedAt
		}
		switch {
		case s.ledger.Embedded():
			p.Guard = "home"
		case !i.Guarded:
			p.Guard = "lease"
		}
		switch {
		case !s.ledger.Embedded() && !i.LeaseEnd.After(now):
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

// served puts beside what lives at handlers how many processes serve them.
func served(backlogs []ledger.Backlog, processes []InstanceView) []HandlerView {
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
				by[handler] = &HandlerView{Backlog: ledger.Backlog{Handler: handler, Counts: map[action.Status]int{}}}
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
