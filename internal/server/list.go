package server

func nonNil[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}
