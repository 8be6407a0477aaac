package service

// Obeyed reports whether a character is DEL, a C1 control, or one that turns the direction of text.
func Obeyed(r rune) bool {
	return r >= 0x7f && r < 0xa0 || r == 0x061c || r == 0x200e || r == 0x200f || r >= 0x2028 && r <= 0x202e || r >= 0x2066 && r <= 0x2069
}
