package pool

import (
	"reflect"

	"github.com/waybill-dev/waybill/internal/promotion"
)

// packed is an AppState in less memory: most applications have no value in most fields.
type packed struct {
	uid                  string
	generation, observed int64
	applied, attempted   string
	ready                promotion.Condition
	flags                uint8
	more                 *packedMore // nil: all of it is zero
}

// packedMore holds the fields that few applications have.
type packedMore struct {
	stalled          promotion.Condition
	attemptedDigest  string
	appliedOrigin    string
	history          []promotion.Release
	malformed        string
	notReconciledYet string
}

// flagsOf returns the flags of a state, in the order of packed.flags.
func flagsOf(app *promotion.AppState) []*bool {
	return []*bool{&app.Suspended, &app.Deleting, &app.Reconciling, &app.HasApplied, &app.HasAttempted, &app.Helm,
		&app.HasHistory}
}

// pack returns a state without the values of labels and markers, which are kept elsewhere.
func pack(app promotion.AppState) *packed {
	p := &packed{
		uid:        app.UID,
		generation: app.Generation,
		observed:   app.Observed,
		applied:    app.Applied,
		attempted:  app.Attempted,
		ready:      app.Ready,
	}
	for i, flag := range flagsOf(&app) {
		if *flag {
			p.flags |= 1 << i
		}
	}
	more := packedMore{app.Stalled, app.AttemptedDigest, app.AppliedOrigin, app.History, app.Malformed, app.NotReconciledYet}
	if !reflect.ValueOf(more).IsZero() {
		p.more = &more
	}
	return p
}

// unpack returns the state.
func (p *packed) unpack() promotion.AppState {
	app := promotion.AppState{
		UID:        p.uid,
		Generation: p.generation,
		Observed:   p.observed,
		Applied:    p.applied,
		Attempted:  p.attempted,
		Ready:      p.ready,
	}
	for i, flag := range flagsOf(&app) {
		*flag = p.flags&(1<<i) != 0
	}
	if m := p.more; m != nil {
		app.Stalled, app.AttemptedDigest, app.AppliedOrigin = m.stalled, m.attemptedDigest, m.appliedOrigin
		app.History, app.Malformed, app.NotReconciledYet = m.history, m.malformed, m.notReconciledYet
	}
	return app
}
