package service

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/queue"
)

// Trouble is one thing that a person should look at.
type Trouble struct {
	Kind    string    `json:"kind"`              // see the constants
	Subject string    `json:"subject,omitempty"` // the handler, lane, pipeline, file or workflow
	Text    string    `json:"text"`
	Since   time.Time `json:"since,omitzero"`
	Hint    string    `json:"hint,omitempty"` // what to do about it
	Warning bool      `json:"warning"`        // true: no work is blocked by it
}

// The kinds of trouble, in the order in which they are listed.
const (
	TroubleStopped     = "stopped"     // a pipeline's decisions stopped at a broken invariant
	TroubleDead        = "dead"        // every process that runs roles is dead
	TroubleUnserved    = "unserved"    // actions wait for a handler that no conductor serves
	TroublePromoter    = "promoter"    // no process promotes the pipelines of Kubernetes
	TroubleLane        = "lane"        // a lane is slowed, paused or disabled
	TroubleLate        = "late"        // ready actions wait for long
	TroubleBlobs       = "blobs"       // processes use different blob stores
	TroubleHosts       = "hosts"       // local hosts belong to a home without a conductor
	TroublePartition   = "partition"   // partitions for new actions are missing, or an old one cannot be removed
	TroubleUndeletable = "undeletable" // a workflow cannot be deleted from its cluster
	TroubleSnapshot    = "snapshot"    // a transaction keeps dead rows from being removed
	TroubleService     = "service"     // a service is down or keeps restarting, or is not looked at
	TroubleReload      = "reload"      // the configuration file has faults
	TroubleRestart     = "restart"     // a change of the configuration needs a restart
	TroubleCatalog     = "catalog"     // the catalog of a service broker has faults
)

// Ages from which something counts as a trouble.
const (
	lateAfter = 30 * time.Second // age of a ready action
	heldAfter = 5 * time.Minute  // age of a transaction that holds dead rows
)

// rank returns the position of a kind of trouble in the list of kinds.
func rank(kind string) int {
	return slices.Index([]string{TroubleStopped, TroubleDead, TroubleUnserved, TroublePromoter, TroubleCatalog, TroubleLane, TroubleLate, TroubleBlobs,
		TroubleHosts, TroublePartition, TroubleUndeletable, TroubleSnapshot, TroubleService, TroubleReload, TroubleRestart}, kind)
}

// deadTroubles returns a trouble if there are processes and every one is dead: a living one removes dead ones. One
// that runs and sends no heartbeat is dead, too: its database may take no writes.
func (v StatusView) deadTroubles() []Trouble {
	if len(v.Processes) == 0 || slices.ContainsFunc(v.Processes, func(p InstanceView) bool { return p.State != "dead" }) {
		return nil
	}
	last := slices.MaxFunc(v.Processes, func(a, b InstanceView) int { return a.LeaseEnd.Compare(b.LeaseEnd) })
	if h := last.holder; h != nil {
		return []Trouble{{Kind: TroubleDead, Subject: last.Name, Since: h.Heard,
			Text: fmt.Sprintf(
				"the only process, %s (pid %d), is stopped, hangs, or cannot write to the home: it has not been heard from", last.Name, h.PID),
			Hint: fmt.Sprintf(
				"kill -CONT %d continues a stopped one; else end it with kill -KILL %d, and start another one: waybill up", h.PID, h.PID)}}
	}
	text := fmt.Sprintf("the only process, %s, is dead: it sends no heartbeat", last.Name)
	if n := len(v.Processes); n > 1 {
		text = fmt.Sprintf("all %d processes are dead: none sends a heartbeat; the last was %s", n, last.Name)
	}
	return []Trouble{{Kind: TroubleDead, Subject: last.Name, Since: last.LeaseEnd, Text: text,
		Hint: "if it runs, its log has the reason; else start one: waybill up, or waybill serve"}}
}

// unservedTroubles returns a trouble for each handler with live actions that no conductor serves.
func (v StatusView) unservedTroubles() (all []Trouble) {
	for _, h := range v.Handlers {
		if h.Served > 0 || h.Live() == 0 {
			continue
		}
		t := Trouble{Kind: TroubleUnserved, Subject: h.Handler, Since: h.Oldest,
			Text: fmt.Sprintf("no process serves handler %s, which has %s", h.Handler, liveActions(h.Live())),
			Hint: "describe it in the server.yaml of a process that runs the role conductor"}
		if !slices.ContainsFunc(v.Processes, func(p InstanceView) bool { return slices.Contains(p.Roles, "conductor") && p.State == "alive" }) {
			t.Hint = "start a conductor: waybill up, or waybill serve conductor"
			if h.Counts[action.Running] > 0 && len(v.Processes) == 0 {
				t.Hint += "; it also takes over the attempts of processes that have ended"
			}
		}
		all = append(all, t)
	}
	return all
}

// promoterTroubles returns a trouble if there are pipelines of Kubernetes and no living process promotes them.
func (v StatusView) promoterTroubles(pipelines []string) []Trouble {
	if len(pipelines) == 0 || slices.ContainsFunc(v.Processes, func(p InstanceView) bool {
		return p.State != "dead" && slices.Contains(p.Roles, "promoter")
	}) {
		return nil
	}
	which := pipelines[0]
	if n := len(pipelines); n > 1 {
		which = fmt.Sprintf("%d pipelines of Kubernetes", n)
	}
	return []Trouble{{Kind: TroublePromoter, Subject: pipelines[0],
		Text: "no process promotes " + which + ", and what is shown may be old",
		Hint: "start a promoter: waybill serve promoter"}}
}

func liveActions(n int) string {
	if n == 1 {
		return "1 live action"
	}
	return fmt.Sprintf("%d live actions", n)
}

// laneTroubles returns a trouble for each lane that is slowed, paused or disabled. All but disabled lanes are
// warnings: a slowed lane recovers on its own, and a person paused a lane on purpose.
func (v StatusView) laneTroubles() (all []Trouble) {
	for _, l := range v.Lanes {
		t := Trouble{Kind: TroubleLane, Subject: l.Key, Text: "lane " + l.Key + " is ", Warning: l.State != "disabled"}
		switch l.State {
		case "disabled":
			t.Since, t.Hint = l.DisabledAt, "waybill action limits --enable "+l.Key
			t.Text += "disabled"
		case "paused":
			t.Text += "paused by " + l.PausedBy
			if !l.PauseUntil.IsZero() {
				t.Text += " until " + l.PauseUntil.UTC().Format(time.RFC3339)
			}
			t.Hint = "waybill action limits --resume " + l.Key
		default:
			t.Since, t.Hint = l.SlowedAt, "it speeds up by itself once its target works again"
			t.Text += fmt.Sprintf("%s to %s of %s", "slowed", action.PerSecond(l.Rate), action.PerSecond(l.Full()))
		}
		if l.Reason != "" {
			t.Text += ": " + l.Reason
		}
		all = append(all, t)
	}
	return all
}

// lateTroubles returns a trouble for each handler that is served and whose ready actions still wait for long. It leaves out
// actions in lanes that are slowed, paused or disabled: laneTroubles names those lanes.
func (v StatusView) lateTroubles(lanes []queue.Limiter) (all []Trouble) {
	for _, h := range v.Handlers {
		if h.Served == 0 || h.Free.IsZero() || v.Now.Sub(h.Free) < lateAfter {
			continue
		}
		t := Trouble{Kind: TroubleLate, Subject: h.Handler, Since: h.Free,
			Text: fmt.Sprintf("handler %s is behind: %d ready, %d running", h.Handler, h.Ready, h.Counts[action.Running]),
			Hint: "more workers, or more processes that serve it"}
		if slices.ContainsFunc(lanes, func(l queue.Limiter) bool { return l.Key == h.Handler || strings.HasPrefix(l.Key, h.Handler+"/") }) {
			t.Hint = "its lanes are limited: waybill action limits"
		}
		all = append(all, t)
	}
	return all
}

// blobTroubles returns a trouble if processes keep blobs in different stores, since they cannot read each other's blobs.
func blobTroubles(reports []queue.Report) []Trouble {
	urls := map[string]string{} // by the store's id
	for _, r := range reports {
		if r.Blobs != nil {
			urls[r.Blobs.ID] = r.Blobs.URL
		}
	}
	if len(urls) < 2 {
		return nil
	}
	return []Trouble{{Kind: TroubleBlobs, Text: "processes keep blobs in different stores, and cannot read each other's: " +
		strings.Join(slices.Sorted(maps.Values(urls)), ", "),
		Hint: "name one store that all processes reach in each server.yaml: blob: {url: s3://… or a shared folder}; then ship again"}}
}

// hostTroubles returns a trouble for each home that has local hosts of a definition in force and no conductor.
func (s *Service) hostTroubles(ctx context.Context, now queue.Status) (all []Trouble, err error) {
	homes, err := s.ledger.HostHomes(ctx)
	if err != nil || len(homes) == 0 {
		return nil, err
	}
	owners, err := s.ledger.Owners(ctx, "")
	if err != nil {
		return nil, err
	}
	for _, r := range s.allReports(now) {
		if r.Home != nil {
			maps.DeleteFunc(homes, func(_ string, home queue.HostHome) bool { return home.ID == r.Home.ID })
		}
	}
	away := map[queue.HostHome][]string{}
	for resource := range owners {
		if home, found := homes[resource.Address]; found && !slices.Contains(away[home], resource.Address) {
			away[home] = append(away[home], resource.Address)
		}
	}
	waiting := slices.ContainsFunc(now.Backlogs, func(b queue.Backlog) bool { return b.Handler == "step" && b.Live() > 0 })
	for home, hosts := range away {
		slices.Sort(hosts)
		named := strings.Join(hosts[:min(len(hosts), namedHosts)], ", ")
		if more := len(hosts) - namedHosts; more > 0 {
			named += fmt.Sprintf(" and %d more", more)
		}
		all = append(all, Trouble{Kind: TroubleHosts, Subject: home.Place, Warning: !waiting,
			Text: fmt.Sprintf("no conductor has the home %s with %s: their steps wait for it", home.Place, named),
			Hint: "start waybill serve conductor with that home, or give the hosts new names in waybill.yaml"})
	}
	slices.SortFunc(all, func(a, b Trouble) int { return strings.Compare(a.Text, b.Text) })
	return all, nil
}

// namedHosts is the number of hosts that a trouble names.
const namedHosts = 5

// strainTroubles returns a trouble if a long transaction slows the database.
func (v StatusView) strainTroubles() []Trouble {
	if v.Strain.HeldSince.IsZero() || v.Now.Sub(v.Strain.HeldSince) < heldAfter {
		return nil
	}
	return []Trouble{{Kind: TroubleSnapshot, Since: v.Strain.HeldSince, Warning: true,
		Text: "a transaction keeps dead rows from being removed: " + v.Strain.HeldBy,
		Hint: "end that transaction: until then everything slows down"}}
}

// fewAhead is the number of future partitions below which something must be wrong: there should be four.
const fewAhead = 2

// partitionTroubles returns what may stop actions from being stored, or old ones from being removed.
func (v StatusView) partitionTroubles() (all []Trouble) {
	if v.Partitions == nil {
		return nil
	}
	if n := v.Partitions.Ahead; n < fewAhead {
		all = append(all, Trouble{Kind: TroublePartition, Warning: n > 0,
			Text: fmt.Sprintf("%d of 4 future partitions exist; without one, actions cannot be stored", n),
			Hint: "a process with the role conductor makes them hourly; its log has the reason why it does not"})
	}
	for _, p := range v.Partitions.Pinned {
		all = append(all, Trouble{Kind: TroublePartition, Subject: p.Name, Warning: true,
			Text: fmt.Sprintf("partition %s is past its retention, and stays because action %s has not ended", p.Name,
				p.Action), Hint: "waybill action show " + p.Action.String()})
	}
	return all
}

// reportTroubles returns the troubles that only the processes' reports have, each once.
func reportTroubles(reports []queue.Report) (all []Trouble) {
	seen := map[[2]string]bool{}
	add := func(t Trouble) {
		if key := [2]string{t.Kind, t.Text}; !seen[key] {
			seen[key] = true
			all = append(all, t)
		}
	}
	for _, r := range reports {
		for _, name := range slices.Sorted(maps.Keys(r.Stopped)) {
			add(Trouble{Kind: TroubleStopped, Subject: name, Text: fmt.Sprintf("pipeline %s is stopped: %s", name, r.Stopped[name]),
				Hint: "its log breaks an invariant; please report it, with waybill log " + name + " -o json"})
		}
		for _, workflow := range slices.Sorted(maps.Keys(r.Undeletable)) {
			add(Trouble{Kind: TroubleUndeletable, Subject: workflow, Warning: true,
				Text: fmt.Sprintf("workflow %s stays in its cluster: %s", workflow, r.Undeletable[workflow]),
				Hint: "it is archived and recorded; deleting it is tried again"})
		}
		if r.Broker != nil && len(r.Broker.Faults) > 0 {
			add(catalogTrouble(*r.Broker))
		}
		if r.Reload == nil {
			continue
		}
		if len(r.Reload.Faults) > 0 {
			add(Trouble{Kind: TroubleReload, Subject: r.Reload.File, Since: r.Reload.TriedAt, Warning: true,
				Text: "the configuration has faults, so the earlier one stays in force: " + strings.Join(r.Reload.Faults, "; "),
				Hint: "waybill config check " + r.Reload.File})
		}
		if len(r.Reload.Restart) > 0 {
			add(Trouble{Kind: TroubleRestart, Subject: r.Reload.File, Since: r.Reload.Since, Warning: true,
				Text: "changed, but in force only after a restart: " + strings.Join(r.Reload.Restart, ", ")})
		}
	}
	return all
}

// catalogTrouble returns the trouble of a service broker whose catalog has faults. Without an earlier one it serves no platform.
func catalogTrouble(b queue.Broker) Trouble {
	so := "the service broker answers 503"
	if b.Served {
		so = "the earlier one stays in force"
	}
	return Trouble{Kind: TroubleCatalog, Subject: b.Catalog, Since: b.TriedAt, Warning: b.Served,
		Text: "the catalog has faults, so " + so + ": " + strings.Join(b.Faults, "; "),
		Hint: "waybill config check names them with their places; the file is read again when it changes"}
}

// allReports returns the reports of this process and of all instances.
func (s *Service) allReports(now queue.Status) []queue.Report {
	all := []queue.Report{s.ledger.Report()}
	if s.holder != nil && s.holder() == nil {
		return all
	}
	for _, i := range now.Instances {
		all = append(all, i.Report)
	}
	return all
}
