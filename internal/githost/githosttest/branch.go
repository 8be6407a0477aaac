package githosttest

// Commit is a commit of a real repository.
type Commit struct{ SHA, Message string }

// SetBranch makes a branch have the commits of a real repository, the oldest of which is on top of main. Without commits it deletes the
// branch.
func (h *Host) SetBranch(branch string, commits ...Commit) {
	h.mu.Lock()
	defer h.mu.Unlock()
	parent := h.branches["main"]
	for _, c := range commits {
		if _, known := h.commits[c.SHA]; !known {
			h.commits[c.SHA] = modelCommit{message: c.Message, parent: parent}
		}
		parent = c.SHA
	}
	switch {
	case len(commits) == 0:
		delete(h.branches, branch)
	case h.branches[branch] != parent:
		h.move(branch, parent)
	}
}
