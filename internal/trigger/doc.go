// Package trigger maps a CloudEvent to an action: a Filter decides whether a Trigger wants the event, and Plan makes
// the action, with parameters that JSON paths take from the event.
//
// Everything here is pure. The same trigger and event give the same plan, whatever the mode in which the event was
// sent. An event that a trigger wants always becomes an action: if its parameters cannot be taken, or do not fit the
// process or handler, the action is FAILED from the start, with a code and a reason, so that people find it beside
// those that worked.
package trigger
