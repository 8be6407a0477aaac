package build_test

import (
	"bytes"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/waybill-dev/waybill/internal/build"
)

func TestTimesThatJSONCannotHaveAreClamped(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"9999-12-31T23:59:59-12:00": "9999-12-31T23:59:59Z", "0000-01-01T00:00:00+12:00": "0001-01-01T00:00:00Z",
		"2026-03-01T08:00:00+01:00": "2026-03-01T07:00:00Z",
	} {
		e := build.ParseEntry([]byte(text + " \x1fe\x1fx\n"))
		if got, err := e.At.MarshalText(); err != nil || string(got) != want || string(e.Text) != "x" || !e.Stderr {
			t.Errorf("%s: %s %q %v, %v", text, got, e.Text, e.Stderr, err)
		}
	}
}

func TestEntriesAreWrittenAsSpecified(t *testing.T) {
	t.Parallel()
	at := time.Date(2021, 11, 24, 11, 22, 3, 200_000_000, time.FixedZone("", 3600))
	const stamp = "2021-11-24T10:22:03.200000000Z "
	for want, e := range map[string]build.Entry{
		stamp + "Done.\n":                    {At: at, Text: []byte("Done.")},
		stamp + "\n":                         {At: at},
		stamp + "\x1fe\x1fbad\n":             {At: at, Text: []byte("bad"), Marks: build.Marks{Stderr: true}},
		stamp + "\x1fep\x1fbad\n":            {At: at, Text: []byte("bad"), Marks: build.Marks{Stderr: true, Partial: true}},
		stamp + "\x1fw\x1fnote\n":            {At: at, Text: []byte("note"), Marks: build.Marks{Waybill: true}},
		stamp + "\x1fr\x1fdos\n":             {At: at, Text: []byte("dos"), Marks: build.Marks{CRLF: true}},
		stamp + "\x1feu\x1fend\n":            {At: at, Text: []byte("end"), Marks: build.Marks{Stderr: true, Unended: true}},
		stamp + "\x1f\x1f\x1fe\x1fprinted\n": {At: at, Text: []byte("\x1fe\x1fprinted")},
	} {
		if got := string(build.FormatEntry(nil, e)); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func FuzzParseEntry(f *testing.F) {
	f.Add([]byte("2021-11-24T10:22:03.200000000Z \x1fep\x1ftext\n"))
	f.Add([]byte("2021-11-24T10:22:03.2Z text\n"))
	f.Add([]byte("\x1f\x1f"))
	f.Fuzz(func(t *testing.T, line []byte) {
		e := build.ParseEntry(line)
		if bytes.ContainsRune(bytes.TrimSuffix(line, []byte("\n")), '\n') || e.At.IsZero() {
			return
		}
		again := build.ParseEntry(build.FormatEntry(nil, e))
		if again.Marks != e.Marks || !bytes.Equal(again.Text, e.Text) || !again.At.Equal(e.At) {
			t.Errorf("%q: %+v, then %+v", line, e, again)
		}
	})
}

func TestEntriesComeBack(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		e := build.Entry{At: time.Unix(rapid.Int64Range(0, 4e9).Draw(t, "s"), rapid.Int64Range(0, 1e9-1).Draw(t, "ns")).UTC(),
			Marks: build.Marks{Stderr: rapid.Bool().Draw(t, "e"), Partial: rapid.Bool().Draw(t, "p"), Waybill: rapid.Bool().
				Draw(t, "w"), CRLF: rapid.Bool().Draw(t, "r"), Unended: rapid.Bool().Draw(t, "u")},
			Text: bytes.ReplaceAll(rapid.SliceOf(rapid.SampledFrom([]byte{0, 0x1f, 'e', 'p', 'x', 0xff, '\r'})).Draw(t, "text"), []byte("\n"), nil)}
		got := build.ParseEntry(build.FormatEntry(nil, e))
		if got.Marks != e.Marks || !bytes.Equal(got.Text, e.Text) || !got.At.Equal(e.At) {
			t.Fatalf("%+v came back as %+v", e, got)
		}
	})
}

// cut cuts a stream that arrives in chunks and joins its parts.
func cut(chunks ...[]byte) (lines []string, parts int, longest int, open bool) {
	var f build.Framer
	var line []byte
	emit := func(part build.Entry) {
		parts++
		longest = max(longest, len(part.Text))
		line = append(line, part.Text...)
		open = part.Partial
		if !part.Partial {
			lines = append(lines, string(line))
			line = line[:0]
		}
	}
	for _, c := range chunks {
		f.Write(c, emit)
	}
	f.Close(emit)
	return lines, parts, longest, open
}

func TestFramerCutsLines(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][]string{
		"":                nil,
		"a":               {"a"},
		"a\n":             {"a"},
		"a\nb":            {"a", "b"},
		"\n\n":            {"", ""},
		"a\r\nb\r":        {"a", "b\r"},
		"10 %\r20 %\r\nx": {"10 %\r20 %", "x"},
		"\x00\xff\n":      {"\x00\xff"},
	} {
		got, _, _, _ := cut([]byte(text))
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%q: %s", text, diff)
		}
	}
}

func TestFramerSplitsLongLinesBetweenCharacters(t *testing.T) {
	t.Parallel()
	for _, size := range []int{build.MaxText - 1, build.MaxText, build.MaxText + 1, 2*build.MaxText + 1, 1 << 20} {
		for _, unit := range []string{"x", "ä", "世", "🙂"} {
			line := bytes.Repeat([]byte(unit), size/len(unit))
			for _, end := range []string{"\n", "\r\n", ""} {
				var f build.Framer
				var got []byte
				check := func(part build.Entry) {
					if len(part.Text) > build.MaxText || !utf8.Valid(part.Text) {
						t.Errorf("a part of %d bytes, valid %t", len(part.Text), utf8.Valid(part.Text))
					}
					got = append(got, part.Text...)
				}
				f.Write(append(bytes.Clone(line), end...), check)
				f.Close(check)
				if !bytes.Equal(got, line) {
					t.Errorf("%d bytes of %s came back as %d", len(line), unit, len(got))
				}
			}
		}
	}
}

func TestFramerDoesNotCareHowTheStreamArrives(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		unit := rapid.SampledFrom([]string{"a", "\n", "\r", "\r\n", "世", "\xff", "\x1f", "long "})
		var whole []byte
		for _, part := range rapid.SliceOfN(unit, 0, 40).Draw(t, "stream") {
			if part == "long " {
				part = string(bytes.Repeat([]byte("世x"), build.MaxText/3))
			}
			whole = append(whole, part...)
		}
		want, _, _, _ := cut(whole)
		var chunks [][]byte
		for rest := whole; len(rest) > 0; {
			n := rapid.IntRange(1, min(len(rest), 1+len(rest)/2)).Draw(t, "cut")
			chunks, rest = append(chunks, rest[:n]), rest[n:]
		}
		got, _, longest, open := cut(chunks...)
		if diff := cmp.Diff(want, got); diff != "" || longest > build.MaxText || open {
			t.Fatalf("longest %d, open %t: %s", longest, open, diff)
		}
	})
}

func TestFramerFlushShowsPrompts(t *testing.T) {
	t.Parallel()
	var f build.Framer
	var got []build.Entry
	emit := func(part build.Entry) {
		got = append(got, build.Entry{Text: bytes.Clone(part.Text), Marks: build.Marks{Partial: part.Partial}})
	}
	f.Flush(emit)
	f.Write([]byte("name? \xe4\xb8"), emit)
	f.Flush(emit)
	f.Write([]byte("\x96\r"), emit)
	f.Flush(emit)
	f.Write([]byte("\n"), emit)
	f.Close(emit)
	want := []build.Entry{{Text: []byte("name? "), Marks: build.Marks{Partial: true}},
		{Text: []byte("世"), Marks: build.Marks{Partial: true}}, {Text: nil}}
	if diff := cmp.Diff(want, got, cmp.Comparer(func(a, b []byte) bool { return bytes.Equal(a, b) })); diff != "" {
		t.Error(diff)
	}
}

func TestEntriesOfOtherProgramsAreRead(t *testing.T) {
	t.Parallel()
	at := time.Date(2022, 5, 9, 15, 4, 5, 0, time.UTC)
	for line, want := range map[string]build.Entry{
		"2022-05-09T15:04:05Z text":                      {At: at, Text: []byte("text")},
		"2022-05-09T15:04:05.123Z text of three":         {At: at.Add(123 * time.Millisecond), Text: []byte("text of three")},
		"2022-05-09T17:04:05.5+02:00 ":                   {At: at.Add(500 * time.Millisecond), Text: []byte("")},
		"2022-05-09T17:04:05.000000001+02:00 \x1fe\x1fx": {At: at.Add(1), Marks: build.Marks{Stderr: true}, Text: []byte("x")},
		"2022-05-09 15:04:05 text":                       {Text: []byte("2022-05-09 15:04:05 text")},
		"2022-05-09T15:04:05Z":                           {Text: []byte("2022-05-09T15:04:05Z")},
		" text":                                          {Text: []byte(" text")},
	} {
		if got := build.ParseEntry([]byte(line + "\n")); !got.At.Equal(want.At) || got.Marks != want.Marks ||
			string(got.Text) != string(want.Text) {
			t.Errorf("%q: %+v, want %+v", line, got, want)
		}
	}
}

// printed returns the bytes that the entries of a stream give back. With silence the begun line is given out after each chunk.
func printed(silence bool, chunks ...[]byte) []byte {
	var f build.Framer
	var out []byte
	emit := func(part build.Entry) {
		line := build.FormatEntry(nil, build.Entry{At: time.Unix(1, 0), Text: part.Text, Marks: part.Marks})
		out = build.ParseEntry(line).AppendPrinted(out)
	}
	for _, chunk := range chunks {
		f.Write(chunk, emit)
		if silence {
			f.Flush(emit)
		}
	}
	f.Close(emit)
	return out
}

func TestEntriesGiveBackTheBytesThatWerePrinted(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		unit := rapid.SampledFrom([]string{"a", "\n", "\r", "\r\n", "\x00", "世", "\xff", "\xe4", "\x1f", "\x1fe\x1f", "16385", "long "})
		var whole []byte
		for _, part := range rapid.SliceOfN(unit, 0, 40).Draw(t, "stream") {
			switch part {
			case "16385":
				part = string(bytes.Repeat([]byte("x"), 16385))
			case "long ":
				part = string(bytes.Repeat([]byte("世x"), build.MaxText/3))
			}
			whole = append(whole, part...)
		}
		var chunks [][]byte
		for rest := whole; len(rest) > 0; {
			n := rapid.IntRange(1, min(len(rest), 1+len(rest)/2)).Draw(t, "cut")
			chunks, rest = append(chunks, rest[:n]), rest[n:]
		}
		for _, silence := range []bool{false, true} {
			if got := printed(silence, chunks...); !bytes.Equal(got, whole) {
				t.Fatalf("silence %t: %d bytes came back as %d", silence, len(whole), len(got))
			}
		}
	})
}

func TestWhatWaybillWroteWasNotPrinted(t *testing.T) {
	t.Parallel()
	if got := (build.Entry{Text: []byte("note"), Marks: build.Marks{Waybill: true}}).AppendPrinted([]byte("x")); string(got) != "x" {
		t.Errorf("%q", got)
	}
}

// TestAPlaceIsAfterTheSameEntriesHoweverManyAreReadAtOnce.
func TestAPlaceIsAfterTheSameEntriesHoweverManyAreReadAtOnce(t *testing.T) {
	t.Parallel()
	var at build.Position
	var log []byte
	for _, e := range []build.Entry{{Text: []byte("one")}, {}, {Text: []byte("three"), Marks: build.Marks{Stderr: true}}} {
		line := build.FormatEntry(nil, e)
		log, at = append(log, line...), at.After(line)
	}
	if want := (build.Position{ID: 3, Offset: int64(len(log))}); at != want || (build.Position{}).After(log) != want {
		t.Errorf("one by one %+v, at once %+v, want %+v", at, (build.Position{}).After(log), want)
	}
}

func TestAnEntryNamesItsStream(t *testing.T) {
	t.Parallel()
	for want, marks := range map[string]build.Marks{"stdout": {Partial: true}, "stderr": {Stderr: true},
		"waybill": {Waybill: true, Stderr: true}} {
		if got := marks.Stream(); got != want {
			t.Errorf("%+v: %s, want %s", marks, got, want)
		}
	}
}
