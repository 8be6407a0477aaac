package promotions

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/promotion"
	"github.com/waybill-dev/waybill/internal/store"
)

// Ref names the attempt that an action makes.
type Ref struct {
	Pipeline string // namespace:name
	UID      string
	RunID    string
	Key      promotion.AttemptKey
}

// Event returns the event of the fact that the action's success is.
func (r Ref) Event() promotion.Event { return EventOf(r.Key) }

// EventOf returns the event of the fact that the success of an attempt is.
func EventOf(key promotion.AttemptKey) promotion.Event {
	switch key.Op {
	case promotion.OpPropose:
		return promotion.EnvProposed
	case promotion.OpClose:
		return promotion.ProposalClosed
	case promotion.OpGate:
		return promotion.GateEvent(key.Gate)
	}
	return promotion.EnvPromoted
}

// WorkOf returns the parameters of an action that promotes; false for every other action.
func WorkOf(a *action.Action) (w promotion.Work, ok bool) {
	if a.Kind != promotion.ActionKind || a.Step != nil {
		return w, false
	}
	err := json.Unmarshal(a.Parameters, &w)
	return w, err == nil && w.Run > 0 && w.RunID != ""
}

// OfAction returns the attempt of an action that Record has stored; false for every other action.
func OfAction(a *action.Action) (Ref, bool) {
	w, ok := WorkOf(a)
	return Ref{Pipeline: NameOf(w.Namespace, w.Pipeline), UID: w.UID, RunID: w.RunID, Key: keyOf(w)}, ok
}

// NameOf returns the name of a pipeline in the log.
func NameOf(namespace, name string) string { return namespace + ":" + name }

// TargetText returns a target as it is stored: cluster/namespace; "" for nil.
func TargetText(t *promotion.TargetID) string {
	if t == nil {
		return ""
	}
	return t.Cluster + "/" + t.Namespace
}

// ParseTarget returns the target of a stored text.
func ParseTarget(text string) *promotion.TargetID {
	at := strings.LastIndexByte(text, '/')
	if at < 0 {
		return nil
	}
	return &promotion.TargetID{Cluster: text[:at], Namespace: text[at+1:]}
}

// OnEnd locks the pipelines whose attempts the actions are. It is called before their threads are locked; in a transaction of this
// package it finds them locked, and locks nothing. record records the ends of such attempts; it is nil if there are none. It is
// called in the same transaction, after the threads have ended.
func (p *Promotions) OnEnd(tx *store.Tx, actions []*action.Action) (record func([]action.EndedAction) error, err error) {
	var uids []string
	for _, a := range actions {
		if ref, ok := OfAction(a); ok && !slices.Contains(uids, ref.UID) {
			uids = append(uids, ref.UID)
		}
	}
	if len(uids) == 0 {
		return nil, nil
	}
	t := p.in(tx)
	if !t.locked { // a second lock could deadlock with a transaction that takes the heads in the order of their ids
		if err := t.lock(nil, uids); err != nil {
			return nil, err
		}
	}
	return t.appendEnds, nil
}

// appendEnds records the ends of attempts, and writes the heads.
func (t *txn) appendEnds(ended []action.EndedAction) error {
	for _, e := range ended {
		ref, ok := OfAction(e.Action)
		if !ok {
			continue
		}
		if h := t.of(ref.Pipeline, ref.UID); h != nil {
			if err := t.end(h, ref, e); err != nil {
				return err
			}
		}
	}
	return t.writeHeads()
}

// end records the end of one attempt. An action that is not the newest with its key changes no row, and its entry is appended.
func (t *txn) end(h *Head, ref Ref, e action.EndedAction) error {
	stored, err := t.Attempts(h.ID, []int64{ref.Key.Run})
	if err != nil {
		return err
	}
	t.next(h)
	status, event := endStatus(e)
	for _, a := range stored {
		if a.AttemptKey == ref.Key && a.ActionID == e.Action.ID.String() {
			a.Status, a.At, a.Class, a.Error = status, t.Now(), promotion.ErrorClass(event.Code), event.Error
			if err := t.PutAttempts(h.ID, []Attempt{a}); err != nil {
				return err
			}
		}
	}
	var output Output
	if status == promotion.AttemptDone && len(e.Output) > 0 {
		_ = json.Unmarshal(e.Output, &output) // an output of another form adds nothing
	}
	if output.Proposal != nil {
		if err := t.PutProposal(h.ID, ref.Key.Env, *output.Proposal); err != nil {
			return err
		}
	}
	entry := entryOf(ref, status, event)
	if status == promotion.AttemptDone {
		entry.Detail = output.Detail
	}
	entry.ActionID = e.Action.ID
	return t.append(h, []Entry{entry})
}

// endStatus returns the status of an ended attempt, and its event; an empty one if there is none.
func endStatus(e action.EndedAction) (promotion.AttemptStatus, action.Event) {
	var event action.Event
	if e.Event != nil {
		event = *e.Event
	}
	switch e.Thread.Status {
	case action.Successful:
		return promotion.AttemptDone, event
	case action.Canceled:
		return promotion.AttemptCanceled, event
	}
	return promotion.AttemptFailed, event
}

// entryOf returns the entry for the end of an attempt. Only success is a fact.
func entryOf(ref Ref, status promotion.AttemptStatus, event action.Event) Entry {
	e := Entry{Fact: promotion.Fact{Run: ref.Key.Run, Env: ref.Key.Env}}
	switch status {
	case promotion.AttemptDone:
		e.Event = ref.Event()
		return e
	case promotion.AttemptCanceled:
		e.Event = AttemptCanceled
	default:
		e.Event = AttemptFailed
	}
	e.Class, e.Detail = Note, fmt.Sprintf("%s: %s", strings.TrimSpace(string(ref.Key.Op)+" "+ref.Key.Gate), describe(event))
	return e
}

// describe returns an end's code and error.
func describe(e action.Event) string {
	switch {
	case e.Error == "":
		return e.Code
	case e.Code == "":
		return e.Error
	}
	return e.Code + ": " + e.Error
}

// OfStages reports whether a name in the log is that of a pipeline of a waybill.yaml, whose stages have environments.
func OfStages(name string) bool { return strings.HasPrefix(name, promotion.StageNamespace+":") }
