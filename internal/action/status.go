package action

import (
	"fmt"
	"strings"
)

// Status is the state of an action. The numbers are stored.
type Status int16

// The statuses. The first four are live, the rest are ends and final.
const (
	Pending Status = iota + 1
	Queued
	Running
	Backoff
	Successful
	Failed
	Canceled
	TimedOut
	Invalid
	RetriesExhausted
)

var statusNames = [...]string{"", "PENDING", "QUEUED", "RUNNING", "BACKOFF", "SUCCESSFUL", "FAILED",
	"CANCELED", "TIMED_OUT", "INVALID", "RETRIES_EXHAUSTED"}

func (s Status) String() string {
	if s < Pending || s > RetriesExhausted {
		return "UNKNOWN"
	}
	return statusNames[s]
}

// MarshalText writes the name, such as RUNNING.
func (s Status) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText reads the name in any case.
func (s *Status) UnmarshalText(text []byte) error {
	parsed, err := ParseStatus(string(text))
	*s = parsed
	return err
}

// Live reports whether the action may still do something.
func (s Status) Live() bool { return s >= Pending && s <= Backoff }

// Ended reports whether the status is final.
func (s Status) Ended() bool { return s >= Successful && s <= RetriesExhausted }

// ParseStatus reads the name of a status in any case.
func ParseStatus(name string) (Status, error) {
	for s := Pending; s <= RetriesExhausted; s++ {
		if strings.EqualFold(name, s.String()) {
			return s, nil
		}
	}
	return 0, fmt.Errorf("%q is not a status: want one of %s", name, strings.ToLower(strings.Join(statusNames[1:], ", ")))
}
