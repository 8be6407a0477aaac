package promotions

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/waybill-dev/waybill/internal/admission"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/promotion"
	"github.com/waybill-dev/waybill/internal/store"
)

// intentEvents are the events of the notes that record intents.
var intentEvents = map[promotion.IntentKind]promotion.Event{
	promotion.Approve: ApprovalGiven, promotion.Reject: ApprovalRejected, promotion.HoldBack: HoldSet, promotion.Unhold: HoldCleared,
	promotion.Retry: RetryRequested, promotion.RollBack: RollbackAsked, promotion.Override: OverrideSet,
	promotion.RejectAll: RevisionRejected, promotion.AcceptAll: RevisionAccepted,
}

// mostGroups bounds the groups that are recorded of a person.
const mostGroups = 100

// AddIntent stores a request of a person about a pipeline that exists, with a note. An approval or a rejection that repeats the
// newest opinion of the same person returns that one, and so does any request that is repeated within seconds. Seq is filled in, and At
// if it is zero.
//
// Errors: fault.NotFound for an unknown pipeline; fault.Invalid for a text or number out of bounds.
func (p *Promotions) AddIntent(ctx context.Context, pipeline string, i promotion.Intent) (stored promotion.Intent, created bool, err error) {
	if err := checkIntent(i); err != nil {
		return i, false, err
	}
	err = p.write(ctx, fmt.Sprintf("record a request about %s", pipeline), func(t *txn) error {
		if err := t.lock([]string{pipeline}, nil); err != nil {
			return err
		}
		h, err := t.live(pipeline)
		if err != nil {
			return err
		}
		stored, created, err = t.intend(h, i)
		return err
	})
	return stored, created, err
}

// checkIntent refuses requests with texts or numbers out of bounds.
func checkIntent(i promotion.Intent) error {
	texts := []string{string(i.Env), string(i.Revision), i.By.Name, i.Proof, i.Reason}
	texts = append(texts, i.By.Groups...)
	for _, text := range texts {
		if !store.IsText(text) {
			return store.ErrNotText
		}
		if len(text) > maxText {
			return fault.New(fault.Invalid, "a text of the request has %d bytes: want at most %d", len(text), maxText)
		}
	}
	switch {
	case intentEvents[i.Kind] == "":
		return fault.New(fault.Invalid, "a request of the kind %q", i.Kind)
	case len(i.By.Groups) > mostGroups:
		return fault.New(fault.Invalid, "%s is in %d groups: want at most %d", i.By.Name, len(i.By.Groups), mostGroups)
	}
	return nil
}

// intend stores an intent unless it repeats an opinion.
func (t *txn) intend(h *Head, i promotion.Intent) (promotion.Intent, bool, error) {
	given, err := t.Intents(h.ID, []int64{i.Run}, newestIntents)
	if err != nil {
		return i, false, err
	}
	if first, ok := repeated(given, i, t.Now()); ok {
		return first, false, nil
	}
	if i.At.IsZero() {
		i.At = t.Now()
	}
	i.At, i.Until = stored(i.At), stored(i.Until)
	i.Seq = t.next(h)
	run := int64(0) // a rejection keeps the revision out of later runs, too
	if i.Kind == promotion.Approve {
		run = i.Run
	}
	if err := t.InsertIntent(h.ID, run, i); err != nil {
		return i, false, err
	}
	note := Entry{Class: Note, Fact: promotion.Fact{Run: i.Run, Env: i.Env, Event: intentEvents[i.Kind], At: i.At, By: i.By.Name,
		Detail: i.Reason}}
	return i, true, t.append(h, []Entry{note})
}

// again is the time within which the same request of the same person is a repetition, such as a second click. A second rollback would
// go back once more.
const again = 10 * time.Second

// repeated returns the intent that a request repeats. That is the newest intent of the same identity about the same, if it is of the
// same kind; unless it is an opinion, it must also be a moment ago.
func repeated(given []promotion.Intent, i promotion.Intent, now time.Time) (promotion.Intent, bool) {
	isOpinion := func(k promotion.IntentKind) bool { return k == promotion.Approve || k == promotion.Reject }
	for _, g := range slices.Backward(given) {
		if isOpinion(g.Kind) != isOpinion(i.Kind) || g.Run != i.Run || g.Env != i.Env || g.Revision != i.Revision ||
			Identity(g.By.Name) != Identity(i.By.Name) {
			continue
		}
		return g, g.Kind == i.Kind && (isOpinion(g.Kind) || g.Until.Equal(stored(i.Until)) && now.Sub(g.At) < again)
	}
	return i, false
}

// Identity returns the identity of a person's name for counting: all keys of one Secret, key:NAMESPACE/SECRET#KEY, are one.
func Identity(name string) string {
	if strings.HasPrefix(name, "key:") {
		name, _, _ = strings.Cut(name, "#")
	}
	return name
}

// Freeze freezes a pipeline, or all pipelines with the name "". The error is fault.Refused while another freeze of the same scope is
// in force. A pipeline that the log does not have yet may be frozen.
func (p *Promotions) Freeze(ctx context.Context, pipeline string, f admission.Freeze) error {
	f.By, f.Reason = clean(f.By), clean(f.Reason)
	return p.setFreeze(ctx, pipeline, f.By, func(t *txn, now *admission.Freeze) (*admission.Freeze, error) {
		if f.At.IsZero() {
			f.At = t.Now()
		}
		return &f, now.CheckSet(f, scope(pipeline), t.Now())
	})
}

// Thaw ends the freeze of a pipeline, or that of all pipelines with the name "". The error is fault.Refused if none is in force.
func (p *Promotions) Thaw(ctx context.Context, pipeline, by string) error {
	return p.setFreeze(ctx, pipeline, by, func(t *txn, now *admission.Freeze) (*admission.Freeze, error) {
		return nil, now.CheckClear(scope(pipeline), t.Now())
	})
}

// FreezeEmpty freezes all pipelines if the log has no pipeline and no freeze yet. It reports whether it did.
func (p *Promotions) FreezeEmpty(ctx context.Context, f admission.Freeze) (done bool, err error) {
	err = p.write(ctx, "freeze all pipelines", func(t *txn) error {
		done = false
		if err := t.lockScope(""); err != nil {
			return err
		}
		heads, err := t.PromotionHeads(HeadQuery{Closed: true, Limit: 1})
		if err != nil || len(heads) > 0 {
			return err
		}
		freezes, err := t.Freezes(nil)
		if err != nil || len(freezes) > 0 {
			return err
		}
		f.At, done = t.Now(), true
		t.Touch(store.TopicPromotion)
		return t.PutFreeze("", &f)
	})
	return done, err
}

func scope(pipeline string) string {
	if pipeline == "" {
		return "every Kubernetes pipeline"
	}
	return pipeline
}

// setFreeze replaces a freeze, with a note in each pipeline that it is about. These are locked, so that no decision is recorded that did
// not know it.
func (p *Promotions) setFreeze(ctx context.Context, pipeline, by string,
	change func(*txn, *admission.Freeze) (*admission.Freeze, error)) error {
	return p.write(ctx, "freeze or thaw "+scope(pipeline), func(t *txn) error {
		if err := t.lockScope(pipeline); err != nil {
			return err
		}
		stored, err := t.Freezes([]string{pipeline})
		if err != nil {
			return err
		}
		var now *admission.Freeze
		if f, ok := stored[pipeline]; ok {
			now = &f
		}
		next, err := change(t, now)
		if err != nil {
			return err
		}
		note := Entry{Class: Note, Fact: promotion.Fact{Event: FreezeCleared, By: by}}
		if next != nil {
			note.Event, note.Detail = FreezeSet, next.Reason
		}
		for _, h := range t.heads {
			if err := t.append(h, []Entry{note}); err != nil {
				return err
			}
		}
		t.Touch(store.TopicPromotion)
		return t.PutFreeze(pipeline, next)
	})
}

// lockScope locks one pipeline, or every one. None is created until the transaction ends, because that may be the one to freeze.
func (t *txn) lockScope(pipeline string) error {
	heads, err := t.LockAllPromotions()
	if err == nil && pipeline != "" {
		err = checkName(pipeline)
		heads = slices.DeleteFunc(heads, func(h Head) bool { return h.Name != pipeline })
	}
	t.keep(heads)
	return err
}
