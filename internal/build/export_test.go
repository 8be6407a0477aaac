package build

// LoopVisits returns how many variables the search for circles looks at.
func (f *File) LoopVisits() int { return f.searchLoops().visits }
