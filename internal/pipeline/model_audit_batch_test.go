package pipeline

import "slices"

// acquire: a deployment that claims or marks a step of a free batch holds it from then on.
func (u *auditor) acquire(t *audited, n int) {
	for _, b := range u.of(t).batches {
		if b.region.has(n) && u.holder[b.id] == 0 {
			u.holder[b.id] = t.number
		}
	}
}

// release is asked after every row.
func (u *auditor) release() {
	for again := true; again; {
		again = false
		for id, number := range u.holder {
			t := u.deployment(number)
			b := u.of(t).batchOf(id)
			if !u.mayRelease(t, b) {
				continue
			}
			delete(u.holder, id)
			again = true
			for _, inner := range u.of(t).batches { // those nested in it that the deployment holds
				if b != nil && u.holder[inner.id] == number && inner.region.without(b.region).isEmpty() {
					delete(u.holder, inner.id)
				}
			}
		}
	}
}

func (v *law) batchOf(id batchID) *lawBatch {
	for i := range v.batches {
		if v.batches[i].id == id {
			return &v.batches[i]
		}
	}
	return nil
}

// mayRelease: the batch is gone; or it is drained, and passed, failed in under release, or its
// deployment has ended or is locked out of a batch around it.
func (u *auditor) mayRelease(t *audited, b *lawBatch) bool {
	if b == nil {
		return true
	}
	for _, a := range t.actions {
		if b.host && a.host == string(b.id) || !b.host && slices.Contains(b.ofStages, a.stage) {
			return false
		}
	}
	switch t.status {
	case StatusSuperseded, StatusCanceled, StatusFinished:
		return !slices.ContainsFunc(b.ofStages, func(path string) bool { return u.isOwed(t, path) })
	}
	if t.kind == KindRollback && t.status == StatusFailed && b.region.and(t.facts.or(t.live)).isEmpty() {
		return true // it was not inside of what it took over
	}
	return u.look(t).resolved.has(b.close) || u.failedUnderRelease(t, b) || u.lockedOut(t, b)
}

func (u *auditor) failedUnderRelease(t *audited, b *lawBatch) bool {
	found := false
	for _, path := range b.ofStages {
		if u.failsIn(t, path) {
			found = true
			if u.of(t).stage(path).OnFailure != Release {
				return false
			}
		}
	}
	return found
}

func (u *auditor) lockedOut(t *audited, b *lawBatch) bool {
	outside := false
	for _, outer := range u.of(t).batches {
		if !outer.region.has(b.open) {
			continue
		}
		if h := u.holder[outer.id]; outside && h != 0 && h != t.number {
			return true
		}
		outside = outside || outer.id == b.id
	}
	return false
}
