package action

import "strings"

// HandlerKey returns the key of the limiter of all lanes of a handler together. The key of a lane's
// own limiter is the lane.
func HandlerKey(handler string) string { return handler + "/*" }

// HandlerOf returns the handler that a lane, or the key of a limiter, begins with.
func HandlerOf(key string) string {
	handler, _, _ := strings.Cut(key, "/")
	return handler
}
