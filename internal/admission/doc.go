// Package admission decides whether something may start: in windows of time, despite freezes, and with the approvals
// of people. The steps that start, the order of these conditions and the notes in the log are the caller's; so the
// values here serve each engine that requests admission. They are never changed: a method returns a new value.
package admission
