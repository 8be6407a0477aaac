package watch

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// Memory keeps an M about each object, so that nothing is asked or done twice. It may be lost at
// any time. The zero value is empty.
type Memory[M any] struct {
	mutex sync.Mutex
	about map[types.UID]*M
}

// Of returns the memory of an object, at first a zero M. The one worker that has the object changes it.
func (m *Memory[M]) Of(uid types.UID) *M {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	if m.about == nil {
		m.about = map[types.UID]*M{}
	}
	if m.about[uid] == nil {
		m.about[uid] = new(M)
	}
	return m.about[uid]
}

// Forget removes the memory of an object that is gone, and returns it; nil if there is nothing.
func (m *Memory[M]) Forget(uid types.UID) *M {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	kept := m.about[uid]
	delete(m.about, uid)
	return kept
}
