package build

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"unicode/utf8"
)

// maxName is the longest name in bytes that variables and matrices make of a step or another key.
const maxName = 1000

// maxFileName is the longest name in bytes that an artifact's file gets.
const maxFileName = 100

// reservedNames cannot be names of files on Windows, whatever their extension.
func reservedNames() []string {
	names := []string{"con", "prn", "aux", "nul"}
	for i := range 9 {
		names = append(names, fmt.Sprintf("com%d", i+1), fmt.Sprintf("lpt%d", i+1))
	}
	return names
}

// FileNameOf returns a name under which an artifact's bytes can be stored on every
// system: the last element of its path, of letters, digits, dot, dash and underscore.
func FileNameOf(name string) string {
	base := path.Base(strings.ReplaceAll(name, `\`, "/"))
	safe := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', strings.ContainsRune("._-", r):
			return r
		}
		return '_'
	}, base)
	if len(safe) > maxFileName {
		ext := path.Ext(safe)
		if len(ext) > 20 {
			ext = ""
		}
		safe = safe[:maxFileName-len(ext)] + ext
	}
	safe = strings.TrimRight(safe, ".")
	if trimmed := strings.TrimLeft(safe, "."); trimmed != safe {
		safe = "_" + trimmed
	}
	stem, _, _ := strings.Cut(safe, ".")
	if safe == "" || slices.Contains(reservedNames(), strings.ToLower(stem)) {
		safe = "_" + safe
	}
	return safe
}

// DisplayName returns a path in a form for people and JSON: bytes that are not UTF-8 become \xNN.
func DisplayName(raw string) string {
	if utf8.ValidString(raw) {
		return raw
	}
	var out strings.Builder
	for i := 0; i < len(raw); {
		r, size := utf8.DecodeRuneInString(raw[i:])
		if r == utf8.RuneError && size == 1 {
			fmt.Fprintf(&out, `\x%02x`, raw[i])
		} else {
			out.WriteString(raw[i : i+size])
		}
		i += size
	}
	return out.String()
}
