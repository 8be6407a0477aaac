package promoter

import (
	"context"
	"errors"

	"github.com/waybill-dev/waybill/internal/promotion"
	"github.com/waybill-dev/waybill/internal/promotions"
)

// forgetFormer forgets the pipeline that had the name before another object got it.
func (t *term) forgetFormer(ctx context.Context, name, uid string) error {
	t.mu.Lock()
	former := t.memory[name]
	t.mu.Unlock()
	if former == nil || former.uid == uid {
		return nil
	}
	return t.forget(ctx, name, uid)
}

// forget ends the use of a pipeline that no longer exists, but for one of a UID that has its name now.
func (t *term) forget(ctx context.Context, name, but string) error {
	t.pool.Forget(name)
	t.polls.keep(name, nil)
	t.marks.keep(name, nil)
	t.checks.keep(name, nil)
	t.views.forget(name)
	if err := t.promotions.DeleteView(ctx, name); err != nil {
		return err
	}
	heads, err := t.promotions.Pipelines(ctx, promotions.HeadQuery{Name: name})
	if err != nil {
		return err
	}
	for _, head := range heads {
		if head.UID == but {
			continue
		}
		last, err := t.lastChange(ctx, name, head.UID)
		if err == nil {
			err = t.promotions.Forget(ctx, last)
		}
		if errors.Is(err, promotions.ErrMoved) { // an attempt has ended
			t.wake(name)
			return nil
		}
		if err != nil {
			return err
		}
	}
	t.mu.Lock()
	delete(t.memory, name)
	delete(t.heads, name)
	t.mu.Unlock()
	return nil
}

// lastChange returns the announcements of the end of a pipeline that was deleted. Its sinks are known if this instance has seen it.
func (t *term) lastChange(ctx context.Context, name, uid string) (promotions.Change, error) {
	t.mu.Lock()
	m := t.memory[name]
	t.mu.Unlock()
	if m == nil || m.uid != uid {
		return promotions.Change{Pipeline: name, UID: uid}, nil
	}
	l := &look{term: t, memory: m, pipeline: m.last}
	if err := l.read(ctx); err != nil {
		return promotions.Change{}, err
	}
	c := promotions.Change{Pipeline: name, UID: uid, Head: l.state.Head}
	ended := promotions.Change{}
	for _, run := range l.state.Runs {
		if run.End == promotion.Running {
			fact := promotion.Fact{Run: run.Number, Event: promotion.PipelineSuperseded, At: l.now, Detail: promotions.Deleted}
			ended.Runs = append(ended.Runs, promotion.RunChange{Run: run, End: promotion.Superseded, Facts: []promotion.Fact{fact}})
		}
	}
	if err := l.announce(&ended); err != nil {
		return c, err
	}
	c.Facts, c.Notices = ended.Facts, ended.Notices
	return c, nil
}
