package build_test

import (
	"path"
	"strings"
	"testing"

	"github.com/waybill-dev/waybill/internal/build"
)

func TestMatchGlob(t *testing.T) {
	t.Parallel()
	for pattern, names := range map[string][2][]string{
		"dist/app.tar.gz": {{"dist/app.tar.gz", "./dist/app.tar.gz"}, {"app.tar.gz", "dist/app.tar.gz/x", "a/dist/app.tar.gz"}},
		"./out/*.xml":     {{"out/a.xml", "out/.xml"}, {"out/a/b.xml", "a.xml", "out/a.xmlx"}},
		"**":              {{"a", "a/b", "a/b/c"}, nil},
		"**/*.go":         {{"a.go", "x/a.go", "x/y/a.go"}, {"a.god", "a.go/x"}},
		"a/**/z":          {{"a/z", "a/b/z", "a/b/c/z"}, {"az", "a/z/b", "z"}},
		"a/**":            {{"a", "a/b", "a/b/c"}, {"ab", "b/a"}},
		"**/b/**/c":       {{"b/c", "a/b/c", "b/x/c", "a/b/x/y/c"}, {"c", "b", "a/c"}},
		"[a-c]?":          {{"ax", "cz"}, {"dx", "a", "a/"}},
		`\*`:              {{"*"}, {"a"}},
	} {
		for i, list := range names {
			for _, name := range list {
				if got, want := build.MatchGlob(pattern, name), i == 0; got != want {
					t.Errorf("MatchGlob(%q, %q) = %t, want %t", pattern, name, got, want)
				}
			}
		}
	}
}

// naive matches by trying every number of folders for **.
func naive(parts, names []string) bool {
	switch {
	case len(parts) == 0:
		return len(names) == 0
	case parts[0] == "**":
		return naive(parts[1:], names) || len(names) > 0 && naive(parts, names[1:])
	case len(names) == 0:
		return false
	}
	ok, err := path.Match(parts[0], names[0])
	return ok && err == nil && naive(parts[1:], names[1:])
}

func FuzzMatchGlob(f *testing.F) {
	f.Add("a/**/b*", "a/x/y/bz")
	f.Add("**/**/[x", "a")
	f.Fuzz(func(t *testing.T, pattern, name string) {
		if len(pattern)+len(name) > 60 || strings.Count(pattern, "**") > 4 {
			return
		}
		want := naive(strings.Split(path.Clean(pattern), "/"), strings.Split(path.Clean(name), "/"))
		if got := build.MatchGlob(pattern, name); got != want {
			t.Errorf("MatchGlob(%q, %q) = %t, want %t", pattern, name, got, want)
		}
		if build.CheckGlob(pattern) == nil {
			return
		}
	})
}

func TestFileNameOf(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"dist/app.tar.gz": "app.tar.gz", `..\\con`: "_con", "con.txt": "_con.txt", "a b/ü?.png": "__.png", ".profile": "_profile",
		"..": "_", "trail...": "trail", "": "_", "/": "_", "COM1": "_COM1", "console": "console",
		strings.Repeat("x", 300) + ".zip": strings.Repeat("x", 96) + ".zip",
	} {
		if got := build.FileNameOf(name); got != want {
			t.Errorf("FileNameOf(%q) = %q, want %q", name, got, want)
		}
	}
}

func TestDisplayNameKeepsTheTruth(t *testing.T) {
	t.Parallel()
	if got, want := build.DisplayName("a\xff/ü"), `a\xff/ü`; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestVisibleText(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"plain": "plain", "10 %\r20 %\r": "20 %", "\x1b[31mred\x1b[0m": "red", "a\x1b]0;title\x07b": "ab",
		"a\x1b]0;no end": "a", "a\x1bPq#1\x1b\\b": "ab", "a\u009b31mb\u009d0;x\u009cc": "abc", "a\u202eb\u2069c": "abc",
		"a\x1b": "a", "a\x1b[": "a", "\x1b(0a": "a",
		"\x00\a\tx\xff": "\tx\ufffd", "\x1b[2J\x1b[Hgone": "gone", "": "",
	} {
		if got := build.VisibleText([]byte(text)); got != want {
			t.Errorf("VisibleText(%q) = %q, want %q", text, got, want)
		}
	}
}

func TestColoursPassAndConcealmentDoesNot(t *testing.T) {
	t.Parallel()
	for parameters, want := range map[string]bool{
		"": true, "0": true, "31": true, "1;31": true, "38;5;8": true, "38;2;8;8;8": true, "48:5:8": true,
		"8": false, "1;8": false, "08": false, "38;5;1;8": false, "?25": false, "31;": true, ">4;2": false,
	} {
		if got := build.IsColour(parameters); got != want {
			t.Errorf("ESC[%sm passes: %v, want %v", parameters, got, want)
		}
	}
	if got, want := build.VisibleColours([]byte("10%\r\x1b[32mdone\x1b[0m\x1b[2J\x1b[8mx"),
		build.IsColour), "\x1b[32mdone\x1b[0mx"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
