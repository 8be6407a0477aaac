package fault

import "strings"

// Quote returns a word of a hint as a shell takes it: in quotes if it needs them.
func Quote(word string) string {
	if word != "" && strings.Trim(word, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./:@%+,=") == "" {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// longestClip is the size in bytes of a part of bad input that a message repeats: the input may be long.
const longestClip = 200

// Clip returns the beginning of a text, as a message repeats it.
func Clip(text string) string {
	if len(text) <= longestClip {
		return text
	}
	return strings.ToValidUTF8(text[:longestClip], "") + "…"
}
