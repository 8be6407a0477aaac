package mask

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"net/url"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// masked runs a text through a stream in pieces of these sizes; what remains is the last piece.
func masked(s *Set, text string, sizes ...int) string {
	var out bytes.Buffer
	emit := func(b []byte) { out.Write(b) }
	stream := Stream{Set: s}
	for _, size := range sizes {
		size = min(size, len(text))
		stream.Write([]byte(text[:size]), emit)
		text = text[size:]
	}
	stream.Write([]byte(text), emit)
	stream.Close(emit)
	return out.String()
}

func plain(texts ...string) (needles []needle) {
	for _, text := range texts {
		needles = append(needles, needle{text: text})
	}
	return needles
}

// slowly masks by comparing every needle with every place.
func slowly(needles []string, text string) string {
	covered, joined := make([]bool, len(text)), make([]bool, len(text)+1) // joined: one needle spans this border
	cover := func(from, to int) {
		for i := from; i < to; i++ {
			covered[i] = true
			joined[i] = joined[i] || i > from
		}
	}
	for i := range text {
		for _, n := range needles {
			if strings.HasPrefix(text[i:], n) {
				cover(i, i+len(n))
			}
		}
	}
	for i := range text { // the longest beginning of a needle at the end, which is not a whole one
		if rest := text[i:]; anyBegins(needles, rest) {
			if len(rest) >= shortestRest {
				cover(i, len(text))
			}
			break
		}
	}
	var out strings.Builder
	for i := range len(text) {
		switch {
		case !covered[i]:
			out.WriteByte(text[i])
		case !joined[i]:
			out.WriteString(mark)
		}
	}
	return out.String()
}

func anyBegins(needles []string, rest string) bool {
	for _, n := range needles {
		if strings.HasPrefix(n, rest) && n != rest {
			return true
		}
	}
	return false
}

// TestPiecesDoNotMatter: split anywhere, a text is masked as the slow comparison masks it whole.
func TestPiecesDoNotMatter(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		word := rapid.StringMatching(`[ab]{1,12}`)
		needles := rapid.SliceOfN(word, 1, 5).Draw(t, "needles")
		text := rapid.StringMatching(`[abc]{0,60}`).Draw(t, "text")
		sizes := rapid.SliceOfN(rapid.IntRange(0, 7), 0, 20).Draw(t, "sizes")
		if got, want := masked(compile(plain(needles...)), text, sizes...), slowly(needles, text); got != want {
			t.Fatalf("got %q, want %q", got, want)
		}
	})
}

// TestWhatBeginsNoNeedleIsSkipped, and no needle nor the beginning of one at the end.
func TestWhatBeginsNoNeedleIsSkipped(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		needles := rapid.SliceOfN(rapid.StringMatching(`[abcd]{1,5}`), 1, 50).Draw(t, "needles")
		text := rapid.StringMatching(`[a-f]{0,40}`).Draw(t, "text")
		var s starts
		s.fill(plain(needles...))
		n := s.none([]byte(text))
		for i := range n {
			for _, needle := range needles {
				if strings.HasPrefix(text[i:], needle) || strings.HasPrefix(needle, text[i:]) {
					t.Fatalf("%d bytes are skipped, and %q begins at %d", n, needle, i)
				}
			}
		}
	})
	var s starts
	s.fill(plain("hunter22", "swordfish"))
	if n := s.none([]byte("host sword")); n != len("host ") {
		t.Errorf("%d bytes are skipped", n)
	}
	if n := s.none([]byte("humming swan hu")); n != len("humming swan ") {
		t.Errorf("%d bytes are skipped", n)
	}
}

func FuzzStream(f *testing.F) {
	f.Add("hunter22", "the password is hunter22!", uint(3))
	f.Add("line one\nline two\n", "x\nline one\nline", uint(9))
	f.Fuzz(func(t *testing.T, secret, text string, size uint) {
		if len(secret) > 200 || len(text) > 2000 {
			return
		}
		whole := masked(NewSet(secret), text)
		if got := masked(NewSet(secret), text, int(size%64), int(size%7), int(size%11)); got != whole {
			t.Errorf("in pieces %q, whole %q", got, whole)
		}
		if len(secret) >= Shortest && !strings.Contains(mark, secret) && strings.Contains(strings.ReplaceAll(whole, mark, "\x00"), secret) {
			t.Errorf("%q holds %q", whole, secret)
		}
	})
}

func TestSecretsAreMaskedInTheirForms(t *testing.T) {
	t.Parallel()
	const secret = "p&ss \"wörd\"/1"
	set := NewSet(secret)
	quoted, err := json.Marshal(secret)
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"itself":        secret,
		"base64":        base64.StdEncoding.EncodeToString([]byte(secret)),
		"base64 basic":  base64.StdEncoding.EncodeToString([]byte("u:" + secret)),
		"base64 inside": base64.StdEncoding.EncodeToString([]byte("u" + secret + "and more")),
		"base64url":     base64.RawURLEncoding.EncodeToString([]byte("abc" + secret)),
		"hex":           hex.EncodeToString([]byte(secret)),
		"query":         "?p=" + url.QueryEscape(secret),
		"path":          "/p/" + url.PathEscape(secret),
		"Go's URL":      (&url.URL{Scheme: "https", User: url.UserPassword("u", secret), Host: "h"}).String(),
		"path of Go":    (&url.URL{Scheme: "https", Host: "h", Path: "/" + secret}).String(),
		"encodeURI":     "p&ss%20%22w%C3%B6rd%22/1",
		"new URL":       "https://u:p&ss%20%22w%C3%B6rd%22%2F1@h/",
		"lower case":    "p%26ss%20%22w%c3%b6rd%22%2f1",
		"form":          "p%26ss+%22w%c3%b6rd%22%2f1",
		"json":          string(quoted),
		"JSON of PHP":   `p&ss "wörd"\/1`,
		"printf %q":     `p\&ss\ \"wörd\"/1`,
		"Python's URL":  "p%26ss%20%22w%C3%B6rd%22/1",
		"JavaScript":    "p%26ss%20%22w%C3%B6rd%22%2F1",
		"XML text":      `p&amp;ss "wörd"/1`,
		"XML attribute": `p&amp;ss &quot;wörd&quot;/1`,
		"XML in ASCII":  `p&amp;ss &quot;w&#246;rd&quot;/1`,
		"UTF-16":        wide(secret, binary.LittleEndian),
		"XML in UTF-16": wide(`p&amp;ss &quot;wörd&quot;/1`, binary.BigEndian),
	} {
		got := masked(set, "before "+text+" after", 9, 1, 4)
		if !strings.Contains(got, mark) || !strings.HasPrefix(got, "before ") || !strings.HasSuffix(got, " after") ||
			len(got) > len("before  after")+20 {
			t.Errorf("%s: %q becomes %q", name, text, got)
		}
	}
}

func TestWhatIsMasked(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		secrets    []string
		text, want string
	}{
		"overlapping":          {[]string{"abcdef", "defghi"}, "-abcdefghi-", "-***-"},
		"inside another":       {[]string{"abcdefgh", "cdef"}, "abcdefgh abcdefg cdef", "*** ab***g ***"},
		"side by side":         {[]string{"abcd"}, "abcdabcd", "******"},
		"repeated":             {[]string{"abab"}, "abababab-", "***-"},
		"too short":            {[]string{"abc"}, "abc", "abc"},
		"too short, encoded":   {[]string{"1", "abc\n"}, "0x31 MQ== YWJj 616263", "0x31 MQ== YWJj 616263"},
		"none":                 {nil, "abc", "abc"},
		"with a newline":       {[]string{"secret\n"}, "secret\nsecret.", "***\n***."},
		"lines of a key":       {[]string{"-----BEGIN\nMIIEpAIBAAKC\nx\n"}, "> MIIEpAIBAAKC\nx\n", "> ***\nx\n"},
		"cut at the end":       {[]string{"0123456789"}, "a 01234567", "a ***"},
		"a short cut":          {[]string{"0123456789"}, "a 0123456", "a 0123456"},
		"hidden beginning":     {[]string{"abcdefgh"}, "abcdabcdefgh", "abcd***"},
		"invalid UTF-8 around": {[]string{"hunter22"}, "\xff\xfehunter22\x00", "\xff\xfe***\x00"},
	} {
		if got := masked(NewSet(c.secrets...), c.text); got != c.want {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
	set := NewSet("0123456789")
	if got := set.Text("a 0123456789 012345678"); got != "a *** 012345678" {
		t.Errorf("text becomes %q: the end of a text is not the end of a program", got)
	}
	if got := (*Set)(nil).Text("abc"); got != "abc" {
		t.Errorf("without secrets it becomes %q", got)
	}
}

// TestAStreamGivesOutWhatIsDecided: only a beginning of a secret is held back.
func TestAStreamGivesOutWhatIsDecided(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	stream := Stream{Set: NewSet("hunter22")}
	for _, c := range []struct{ piece, want string }{
		{"password? ", "password? "}, {"hunt", ""}, {"er2", ""}, {"x", "hunter2x"}, {"hunter22", "***"}, {"h", ""}, {"i\n", "hi\n"},
	} {
		out.Reset()
		stream.Write([]byte(c.piece), func(b []byte) { out.Write(b) })
		if out.String() != c.want {
			t.Errorf("after %q it gives %q, want %q", c.piece, out.String(), c.want)
		}
	}
}

// TestLargeSecretsMakeSmallSets: of a large secret the encodings are not searched for.
func TestLargeSecretsMakeSmallSets(t *testing.T) {
	t.Parallel()
	secret := strings.Repeat("0123456789abcdef", 4<<10)
	set := NewSet(secret, "hunter22")
	if n := len(set.states); n > 2*len(secret) {
		t.Errorf("%d bytes make %d states", len(secret), n)
	}
	if got := set.Text("68756e7465723232"); got != "***" {
		t.Errorf("the encoding of the short secret becomes %q", got)
	}
	if got := set.Text("-" + secret + "-"); got != "-***-" {
		t.Errorf("it becomes %d bytes", len(got))
	}
}

func BenchmarkStream(b *testing.B) {
	var secrets []string
	for i := range 20 {
		secrets = append(secrets, "ghp_"+strings.Repeat(string(rune('a'+i)), 30))
	}
	line := []byte(strings.Repeat("2026-01-01 a line of some hundred bytes, as programs print them: 0123456789 ok pass fail \n", 700))
	stream := Stream{Set: NewSet(secrets...)}
	b.SetBytes(int64(len(line)))
	for b.Loop() {
		stream.Write(line, func([]byte) {})
	}
}

func TestMarksAreCounted(t *testing.T) {
	t.Parallel()
	s := NewSet("hunter22")
	masked(s, "a hunter22 b hunt", 5, 5)
	masked(s, "hunter22hunter22")
	if got := s.Marks(); got != 3 {
		t.Errorf("%d marks, want 3", got)
	}
	if got := (*Set)(nil).Marks(); got != 0 {
		t.Errorf("no secrets have %d marks", got)
	}
}
