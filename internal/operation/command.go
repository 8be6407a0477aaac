package operation

// commandPath returns the last part of the path of a kind of command in the API.
func commandPath(kind string) string {
	if kind == "alarm" {
		return "alarms" // programs raise them, and several may
	}
	return kind
}
