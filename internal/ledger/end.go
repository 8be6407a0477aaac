package ledger

import (
	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/store"
)

// onEnd has the ends of actions recorded by the services, the promotions, the builds and the journal, in the order reverse to
// that of their locks.
func (l *Ledger) onEnd(tx *store.Tx, actions []*action.Action) (record func([]action.EndedAction) error, err error) {
	var records []func([]action.EndedAction) error
	for _, lock := range []func(*store.Tx, []*action.Action) (func([]action.EndedAction) error, error){
		l.Journal.OnEnd, l.onEndOfBuild, l.Promotions.OnEnd, l.Services.OnEnd,
	} {
		record, err := lock(tx, actions)
		if err != nil {
			return nil, err
		}
		if record != nil {
			records = append(records, record)
		}
	}
	return func(ended []action.EndedAction) error {
		for i := len(records) - 1; i >= 0; i-- {
			if err := records[i](ended); err != nil {
				return err
			}
		}
		return nil
	}, nil
}
