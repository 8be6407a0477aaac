package pool

import "unique"

// intern returns the text that equal texts share, since most objects have the same few.
func intern(text string) string { return unique.Make(text).Value() }
