package service

import (
	"unicode/utf8"

	"github.com/waybill-dev/waybill/internal/fault"
)

// Obeyed reports whether a character is DEL, a C1 control, or one that turns the direction of text.
func Obeyed(r rune) bool {
	return r >= 0x7f && r < 0xa0 || r == 0x061c || r == 0x200e || r == 0x200f || r >= 0x2028 && r <= 0x202e || r >= 0x2066 && r <= 0x2069
}

// longestReason bounds what a person gives as a reason, in characters. It stays in the log, and on every page about what it is for.
const longestReason = 1000

func checkReason(reason string) error {
	if n := utf8.RuneCountInString(reason); n > longestReason {
		return fault.New(fault.Invalid, "the reason has %d characters, %d are allowed", n, longestReason)
	}
	return nil
}
