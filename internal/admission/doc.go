// Package admission decides whether something may start: in windows of time, despite freezes, and
// with the approvals of people. What starts, the order of these conditions and the notes in the
// log are the caller's; so the values here serve each engine that asks for admission. They are
// never changed: a method returns a new value.
package admission
