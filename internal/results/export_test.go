package results

// SkipArtifacts has the next artifact follow the one with an id.
func (s *Store) SkipArtifacts(id int) { s.artifacts = id }
