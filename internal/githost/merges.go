package githost

import "sync"

// mergeKey names a requested merge of a proposal at a head.
type mergeKey struct {
	owner, name string
	number      int64
	head        string
}

// merges remembers asynchronous merges until their ends are read. Losing it is harmless: they are requested again. Safe
// for concurrent use.
type merges struct {
	mu    sync.Mutex
	known map[mergeKey]string
}

func (m *merges) get(key mergeKey) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.known[key]
}

// set remembers the host's id of a merge; "" forgets it.
func (m *merges) set(key mergeKey, id string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.known == nil || len(m.known) >= maxRemembered {
		m.known = map[mergeKey]string{}
	}
	if id == "" {
		delete(m.known, key)
		return
	}
	m.known[key] = id
}
