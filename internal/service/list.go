package service

// NonNil returns list, but never nil: in JSON an empty list is [] and not null.
func NonNil[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}
