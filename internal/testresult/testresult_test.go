package testresult_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"
	"time"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/waybill-dev/waybill/internal/goldentest"
	"github.com/waybill-dev/waybill/internal/testresult"
)

// formatOf returns the format of a file by its extension.
func formatOf(path string) testresult.Format {
	if filepath.Ext(path) == ".trx" {
		return testresult.TRX
	}
	return testresult.JUnit
}

func parse(t testing.TB, format testresult.Format, text string) testresult.Report {
	t.Helper()
	report, err := testresult.Parse(format, strings.NewReader(text), "", testresult.NewRoom())
	if err != nil {
		t.Fatal(err)
	}
	return report
}

// TestFilesOfRealPrograms compares what is read from files as test programs write them.
func TestFilesOfRealPrograms(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"gotestsum.xml", "pytest.xml", "surefire.xml", "jest-junit.xml", "nested.xml", "node.xml", "dotnet.trx"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f, err := os.Open(filepath.Join("testdata", name))
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			report, err := testresult.Parse(formatOf(name), iotest.OneByteReader(f), "/tmp/scratch/repo", testresult.NewRoom())
			if err != nil {
				t.Fatal(err)
			}
			text, err := json.MarshalIndent(report, "", " ")
			if err != nil {
				t.Fatal(err)
			}
			goldentest.Compare(t, filepath.Join("testdata", name+".json"), string(text)+"\n")
		})
	}
}

func TestEncodings(t *testing.T) {
	t.Parallel()
	const text = "<testsuite name=\"café\"><testcase name=\"naïve 😀\"/>\n</testsuite>"
	wide := func(text string, low, high int) string {
		var out []byte
		for _, unit := range utf16.Encode([]rune(text)) {
			pair := []byte{byte(unit >> 8), byte(unit)}
			out = append(out, pair[low], pair[high])
		}
		return string(out)
	}
	declared := `<?xml version="1.0" encoding="UTF-16"?>` + text
	for name, file := range map[string]string{
		"UTF-8":                  text,
		"UTF-8 with a mark":      "\xef\xbb\xbf" + text,
		"UTF-8, another name":    `<?xml version="1.0" encoding="utf8"?>` + text,
		"UTF-16, little":         "\xff\xfe" + wide(declared, 1, 0),
		"UTF-16, big":            "\xfe\xff" + wide(declared, 0, 1),
		"UTF-16, without a mark": wide(declared, 1, 0),
	} {
		r := parse(t, testresult.JUnit, file).Results[0]
		if r.Suite != "café" || r.Name != "naïve 😀" {
			t.Errorf("%s: got %q %q", name, r.Suite, r.Name)
		}
	}
	for _, encoding := range []string{"ISO-8859-1", "latin1", "Windows-1252"} {
		r := parse(t, testresult.JUnit,
			`<?xml version="1.0" encoding="`+encoding+`"?><testsuite><testcase name="caf`+"\xe9 \x80"+`"/></testsuite>`).Results[0]
		if r.Name != "café €" {
			t.Errorf("%s: got %q", encoding, r.Name)
		}
	}
	if r := parse(t, testresult.JUnit, "<testsuite><testcase name=\"\x1b[31mred\"/></testsuite>").Results[0]; r.Name != "\ufffd[31mred" {
		t.Errorf("a control character: got %q", r.Name)
	}
}

// TestATracebackOfPythonGivesThePlace: the innermost call that is not of a library.
func TestATracebackOfPythonGivesThePlace(t *testing.T) {
	t.Parallel()
	const body = `Traceback (most recent call last):
  File "/usr/lib/python3.12/unittest/case.py", line 58, in testPartExecutor
    yield
  File "/repo/tests/test_cart.py", line 12, in test_total
    self.assertEqual(total(cart), 3)
  File "/repo/shop/cart.py", line 7, in total
    return int(x)
  File "/usr/lib/python3.12/json/decoder.py", line 355, in raw_decode
    raise
ValueError: no`
	report, err := testresult.Parse(testresult.JUnit,
		strings.NewReader("<testsuite><testcase name='a'><failure message='no'>"+html.EscapeString(body)+
			"</failure></testcase></testsuite>"), "/repo", testresult.NewRoom())
	if err != nil {
		t.Fatal(err)
	}
	if r := report.Results[0]; r.File != "shop/cart.py" || r.Line != 7 {
		t.Errorf("the place is %s:%d", r.File, r.Line)
	}
}

// TestWhatXMLDoesNotAllowIsReplaced: a report is worth more than a character of it.
func TestWhatXMLDoesNotAllowIsReplaced(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"\x1b[31m":                       "\ufffd[31m",
		"&#27;[31m":                      "\ufffd[31m",
		"&#x1B;&#0;":                     "\ufffd\ufffd",
		"&#xd800;&#xFFFE;&#99999999999;": "\ufffd\ufffd\ufffd",
		"&#65;&#10;&#x42;&amp;&lt;":      "A\nB&<",
		"caf\xe9 \xff":                   "caf\ufffd \ufffd",
		"\xed\xa0\x80":                   "\ufffd\ufffd\ufffd",
		"\uffff\ufffe":                   "\ufffd\ufffd",
		"&#x1b\u00e9":                    "",
		"é&#233;😀&#x1F600;":              "éé😀😀",
	} {
		file := `<?xml version="1.1" encoding="UTF-8"?><testsuite><testcase name="` + text + `"><failure>x` + text +
			`</failure></testcase></testsuite>`
		report, err := testresult.Parse(testresult.JUnit, strings.NewReader(file), "", testresult.NewRoom())
		switch {
		case want == "":
			if err == nil {
				t.Errorf("%q is read", text)
			}
		case err != nil:
			t.Errorf("%q: %v", text, err)
		case report.Results[0].Name != want || report.Results[0].Message != "x"+want:
			t.Errorf("%q: got %q, %q", text, report.Results[0].Name, report.Results[0].Message)
		}
	}
	r := parse(t, testresult.JUnit,
		"<testsuite><!-- \xff --><testcase name=\"a\"><failure><![CDATA[&#27;\x00]]></failure></testcase></testsuite>").Results[0]
	if r.Message != "&#27;\ufffd" {
		t.Errorf("in a CDATA section: got %q", r.Message)
	}
}

func TestUnreadableFilesNameTheLine(t *testing.T) {
	t.Parallel()
	many := func(open, text, shut string, n int) string {
		return strings.Repeat(open, n) + text + strings.Repeat(shut, n)
	}
	for name, test := range map[string]struct {
		format     testresult.Format
		file, want string
	}{
		"empty":             {"junit", "", "line 1: the file is empty, or not XML"},
		"blank":             {"junit", "\n\n", "line 3: the file is empty, or not XML"},
		"cut off":           {"junit", "<testsuite>\n<testcase name=\"a\"/>\n<test", "line 3: unexpected EOF"},
		"cut inside UTF-16": {"junit", "\xff\xfe<\x00t", "line 1: unexpected EOF"},
		"no XML":            {"junit", "ok  \tshop/cart\t0.031s", "line 1: the file is empty, or not XML"},
		"another root":      {"junit", "<?xml version=\"1.0\"?>\n<html>", "line 2: the root is <html>; want <testsuites> or <testsuite>"},
		"TRX as JUnit":      {"junit", "<TestRun></TestRun>", "line 1: the root is <TestRun>; want <testsuites> or <testsuite>"},
		"JUnit as TRX":      {"trx", "<testsuite/>", "line 1: the root is <testsuite>; want <TestRun>"},
		"wrong end":         {"junit", "<testsuite>\n</testsuites>", "line 2: element <testsuite> closed by </testsuites>"},
		"entity":            {"junit", "<testsuite>\n&lol;</testsuite>", "line 2: invalid character entity &lol;"},
		"entity bomb": {"junit",
			"<!DOCTYPE x [\n<!ENTITY a \"aaaa\">\n<!ENTITY b \"&a;&a;\">]>\n<testsuite>&b;</testsuite>",
			"line 3: the file defines entities, which is not accepted"},
		"external entity": {"trx", "<!DOCTYPE x [<!ENTITY a SYSTEM \"file:///etc/passwd\">]><TestRun>&a;</TestRun>",
			"line 1: the file defines entities, which is not accepted"},
		"too deep": {"junit", many("<testsuite>\n", "", "</testsuite>", 101), "line 101: elements are nested more than 100 deep"},
		"unknown encoding": {"junit", `<?xml version="1.0" encoding="shift_jis"?><testsuite/>`,
			`line 1: opening charset "shift_jis": it is not supported; write UTF-8`},
		"false encoding": {"junit", `<?xml version="1.0" encoding="utf-16"?><testsuite/>`,
			`line 1: opening charset "utf-16": the file is in another encoding`},
		"reference cut off": {"junit", "<testsuite>\n<testcase name='&#2", "line 2: unexpected EOF"},
		"huge comment": {"junit", "<testsuite>\n<!--" + strings.Repeat("x", 17<<20) + "--></testsuite>",
			"line 2: a tag is larger than 16 MiB"},
		"huge tag": {"junit", "<testsuite>\n<testcase name='" + strings.Repeat("x", 17<<20) + "'/></testsuite>",
			"line 2: a tag is larger than 16 MiB"},
		"many attributes": {"junit", "<testsuite" + strings.Repeat(" a='b'", 1000) + ">\n<testcase" +
			strings.Repeat(" a='b'", 1001) + "/></testsuite>", "line 2: a tag has more than 1000 attributes"},
	} {
		report, err := testresult.Parse(test.format, strings.NewReader(test.file), "", testresult.NewRoom())
		if err == nil || err.Error() != test.want {
			t.Errorf("%s: got %v, want %s", name, err, test.want)
		}
		if _, ok := errors.AsType[*testresult.Error](err); !ok || report.Tests != 0 {
			t.Errorf("%s: got %T and %d tests", name, err, report.Tests)
		}
	}
	deepest := many("<testsuite>", `<testcase name="a"/>`, "</testsuite>", 99)
	if got := parse(t, testresult.JUnit, deepest).Tests; got != 1 {
		t.Errorf("100 deep: got %d tests", got)
	}
}

func TestErrorsOfTheReaderAreNotTheFiles(t *testing.T) {
	t.Parallel()
	gone := errors.New("the disk is gone")
	_, err := testresult.Parse(testresult.JUnit, io.MultiReader(strings.NewReader("<testsuite>"), iotest.ErrReader(gone)),
		"", testresult.NewRoom())
	if _, ok := errors.AsType[*testresult.Error](err); ok || !errors.Is(err, gone) {
		t.Errorf("got %v", err)
	}
}

func TestFailuresAreKeptWhenThereIsNoRoomForAll(t *testing.T) {
	t.Parallel()
	passed := strings.Repeat(`<testcase name="passed"/>`, 60_000)
	failed := strings.Repeat(`<testcase name="failed"><failure message="m"/></testcase>`, 100)
	report := parse(t, testresult.JUnit, "<testsuite>"+passed+failed+"</testsuite>")
	if report.Tests != 60_100 || report.Failed != 100 || len(report.Results)+report.Omitted != report.Tests {
		t.Errorf("got %+v, %d results, %d omitted", report.Counts, len(report.Results), report.Omitted)
	}
	if last := report.Results[len(report.Results)-1]; last.Outcome != testresult.Failed || len(report.Results) != 25_100 {
		t.Errorf("%d results, the last one %+v", len(report.Results), last)
	}

	room, kept := testresult.NewRoom(), 0
	long := `<testsuite><testcase name="` + strings.Repeat("n", 1000) + `"><failure>` + strings.Repeat("é", 1500) +
		"</failure></testcase></testsuite>"
	for range 4_000 { // the room is for all files of a step
		report, err := testresult.Parse(testresult.JUnit, strings.NewReader(long), "", room)
		if err != nil || report.Failed != 1 {
			t.Fatal(err, report.Counts)
		}
		for _, r := range report.Results {
			kept += len(r.Name) + len(r.Message)
		}
	}
	if kept > 8<<20 || kept < 4<<20 {
		t.Errorf("kept %d bytes", kept)
	}
}

func TestTimesOfAnyLanguage(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]time.Duration{
		"":              0,
		"1":             time.Second,
		" 0.25 ":        250 * time.Millisecond,
		"1,234.5":       1234500 * time.Millisecond,
		"1,234,567":     1234567 * time.Second,
		"0,25":          250 * time.Millisecond,
		"1.234,5":       1234500 * time.Millisecond,
		"1e-3":          time.Millisecond,
		"-1":            0,
		"NaN":           0,
		"Inf":           0,
		"1e300":         0,
		"soon":          0,
		"999999999999,": 0,
	} {
		report := parse(t, testresult.JUnit, `<testsuite><testcase name="a" time="`+text+`"/></testsuite>`)
		if report.Results[0].Duration != want || report.Duration != want {
			t.Errorf("%q: got %s, want %s", text, report.Duration, want)
		}
	}
	for text, want := range map[string]time.Duration{
		"00:00:01.5": 1500 * time.Millisecond, "2.01:02:03": 49*time.Hour + 2*time.Minute + 3*time.Second,
		"": 0, "1": 0, "x:00:00": 0, "-1:00:00": 0, "65535.00:00:00": 0, "1:2:3:4": 0,
	} {
		report := parse(t, testresult.TRX, `<TestRun><Results><UnitTestResult testName="a" outcome="Passed" duration="`+text+
			`"/></Results></TestRun>`)
		if report.Results[0].Duration != want {
			t.Errorf("%q: got %s, want %s", text, report.Duration, want)
		}
	}
}

func TestOutcomesOfTRX(t *testing.T) {
	t.Parallel()
	words := map[testresult.Outcome][]string{
		testresult.Passed:  {"Passed", "Completed", "Warning"},
		testresult.Failed:  {"Failed", "Error", "Timeout", "Aborted", "Disconnected"},
		testresult.Skipped: {"NotExecuted", "Inconclusive", "NotRunnable", "PassedButRunAborted", "Pending", "InProgress", "", "Nonsense"},
	}
	for want, all := range words {
		for _, word := range all {
			report := parse(t, testresult.TRX, `<TestRun><Results><UnitTestResult testName="a" outcome="`+word+`"/></Results></TestRun>`)
			if got := report.Results[0].Outcome; got != want {
				t.Errorf("%s: got %s, want %s", word, got, want)
			}
		}
	}
}

// TestMessagesAndPlaces reads failures as programs word them.
func TestMessagesAndPlaces(t *testing.T) {
	t.Parallel()
	type place struct {
		Message, File string
		Line          int
	}
	for name, test := range map[string]struct {
		failure string
		want    place
	}{
		"the last line of a Go test": {
			`<failure message="Failed">=== RUN   TestA&#10;    a_test.go:5: got ready&#10;    a_test.go:9: no&#10;--- FAIL: TestA (0.00s)</failure>`, place{"no", "a_test.go", 9}},
		"testify": {
			"<failure message=\"Failed\">    a_test.go:9: \n        \tError Trace:\ta_test.go:9\n        \tError:      \tNot " +
				"equal\n--- FAIL: TestA (0.00s)</failure>", place{"Error Trace:\ta_test.go:9\n        \tError:      \tNot equal", "a_test.go", 9}},
		"a Go test that says nothing": {`<failure message="Failed">=== RUN   TestA&#10;--- FAIL: TestA (0.00s)</failure>`, place{"", "", 0}},
		"Swift": {`<failure message="CartTests.swift:48: Expectation failed"/>`,
			place{"CartTests.swift:48: Expectation failed", "CartTests.swift", 48}},
		"only a type":               {`<error type="T"/>`, place{"", "", 0}},
		"the first of several":      {`<failure message="one"/><failure message="two"/>`, place{"one", "", 0}},
		"failure after a flaky one": {`<rerunFailure message="again"/><failure message="at last"/>`, place{"at last", "", 0}},
		"nested markup":             {`<failure>a<b>c</b>d<system-out>x</system-out></failure>`, place{"acd", "", 0}},
		"a line that is none":       {`<failure message="a.swift:99999999999: no"/>`, place{"a.swift:99999999999: no", "", 0}},
		"a long message": {`<failure message="no` + strings.Repeat("&#10;x", 5000) + "&#10;a.swift:9: no" +
			strings.Repeat("&#10;x", 5000) + `"/>`, place{"no" + strings.Repeat("\nx", 999) + "…", "", 0}},
		"text after the failure": {`<failure message="m"/>stray`, place{"m", "", 0}},
	} {
		report := parse(t, testresult.JUnit, `<testsuite><testcase name="a" classname="pkg">`+test.failure+`</testcase></testsuite>`)
		r := report.Results[0]
		if diff := cmp.Diff(test.want, place{r.Message, r.File, r.Line}); diff != "" || report.Failed != 1 {
			t.Errorf("%s: %d failed (-want +got):\n%s", name, report.Failed, diff)
		}
	}
}

func TestOddJUnit(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		file string
		want testresult.Counts
	}{
		"rerun alone is flaky": {`<testsuite><testcase name="a"><rerunError/></testcase></testsuite>`,
			testresult.Counts{Tests: 1, Flaky: 1}},
		"a test in a test is not one": {
			`<testsuite><testcase name="a"><testcase name="b"/><failure/></testcase></testsuite>`, testresult.Counts{Tests: 1, Failed: 1}},
		"a suite in a test is not one": {
			`<testsuite tests="1"><testcase name="a"><testsuite tests="5"></testsuite></testcase></testsuite>`, testresult.Counts{Tests: 1}},
		"a test in output is not one": {
			`<testsuite><system-out><testcase name="a"/></system-out><testcase name="b"><system-err><failure/></system-err></testcase></testsuite>`,
			testresult.Counts{Tests: 1}},
		"two roots": {
			`<testsuite><testcase name="a"/></testsuite><testsuite><testcase name="a"/></testsuite>`, testresult.Counts{Tests: 2}},
		"nonsense counts": {
			`<testsuites><testsuite tests="-1"/><testsuite tests="1" failures="2"/><testsuite tests="9999999999"/></testsuites>`,
			testresult.Counts{}},
		"counts of tests that differ": {`<testsuite tests="9" failures="9"><testcase name="a"/></testsuite>`, testresult.Counts{Tests: 1}},
		"a document type":             {`<!DOCTYPE testsuite><testsuite><testcase name="a"/></testsuite>`, testresult.Counts{Tests: 1}},
		"a name space":                {`<j:testsuite xmlns:j="urn:j"><j:testcase name="a"/></j:testsuite>`, testresult.Counts{Tests: 1}},
	} {
		if diff := cmp.Diff(test.want, parse(t, testresult.JUnit, test.file).Counts); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestTitle(t *testing.T) {
	t.Parallel()
	for want, r := range map[string]testresult.Result{
		"shop/cart TestCheckout": {Suite: "shop/cart", Name: "TestCheckout"},
		"cart adds up":           {Suite: "cart adds up", Name: "cart adds up"},
		"TestAll":                {Name: "TestAll"},
		"shop.CartTest":          {Suite: "shop.CartTest"},
	} {
		if got := r.Title(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func FuzzJUnit(f *testing.F) { fuzz(f, testresult.JUnit, "*.xml") }
func FuzzTRX(f *testing.F)   { fuzz(f, testresult.TRX, "*.trx") }

// fuzz reads any file: it is refused with a line, or the kept part of it is sound.
func fuzz(f *testing.F, format testresult.Format, seeds string) {
	files, err := filepath.Glob(filepath.Join("testdata", seeds))
	if err != nil || len(files) == 0 {
		f.Fatal("no seeds", err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		report, err := testresult.Parse(format, strings.NewReader(string(data)), "/w", testresult.NewRoom())
		if err != nil {
			if fault, ok := errors.AsType[*testresult.Error](err); !ok || fault.Line < 1 || fault.Text == "" {
				t.Errorf("%T without a line or a text: %v", err, err)
			}
			return
		}
		var counts testresult.Counts
		for _, r := range report.Results {
			counts.Tests++
			switch r.Outcome {
			case testresult.Failed:
				counts.Failed++
			case testresult.Skipped:
				counts.Skipped++
			case testresult.Flaky:
				counts.Flaky++
			case testresult.Passed:
			default:
				t.Errorf("outcome %q", r.Outcome)
			}
			for _, text := range []string{r.Suite, r.Name, r.Message, r.File} {
				if len(text) > 2010 || !utf8.ValidString(text) {
					t.Errorf("%d bytes: %q", len(text), text)
				}
			}
			if r.Duration < 0 || r.Line < 0 {
				t.Errorf("%+v", r)
			}
		}
		if report.Tests != counts.Tests+report.Omitted || report.Failed < counts.Failed || report.Duration < 0 {
			t.Errorf("%+v, of results %+v, omitted %d", report.Counts, counts, report.Omitted)
		}
	})
}

// TestLongTextsAreSkipped reads files with texts that are longer than the decoder gets.
func TestLongTextsAreSkipped(t *testing.T) {
	t.Parallel()
	const after = `<testcase name="after"/></testsuite>`
	long := strings.Repeat("é ]]& ", 200_000) // 1.4 MB; a text must not have a lone & or ]]>
	plain := strings.ReplaceAll(long, "]]&", "&amp;\n")
	for name, text := range map[string]string{
		"a text":                      "<system-out>" + plain + "</system-out>",
		"CDATA":                       "<system-out><![CDATA[" + long + "]]></system-out>",
		"CDATA that ends in brackets": "<system-out><![CDATA[" + long + "]]]]]></system-out>",
		"CDATA with markup":           "<system-out><![CDATA[" + long + "</system-out><a b='>]]>" + plain + "</system-out>",
		"markup that is not markup":   `<a b="!-- ![CDATA[ ' >" c=''/><!-- <![CDATA[ " ]]> - > --><?x <![CDATA[ ?><a b='"'>` + plain + "</a>",
		"a long tag":                  `<a b="` + strings.ReplaceAll(plain, "é", ">") + `"/>`,
	} {
		text = "<testsuite>" + text
		report, err := testresult.Parse(testresult.JUnit, strings.NewReader(text+after), "", testresult.NewRoom())
		if err != nil || report.Tests != 1 {
			t.Errorf("%s: %v, %d tests", name, err, report.Tests)
		}
		if _, err := testresult.Parse(testresult.JUnit, strings.NewReader(text+"\n<x"), "", testresult.NewRoom()); err == nil ||
			err.Error() != fmt.Sprintf("line %d: unexpected EOF", strings.Count(text, "\n")+2) {
			t.Errorf("%s, cut off: %v", name, err)
		}
	}
	report := parse(t, testresult.JUnit, "<testsuite><testcase name='a'><failure>first\n"+plain+"last</failure></testcase></testsuite>")
	if got := report.Results[0].Message; !strings.HasPrefix(got, "first\n") {
		t.Errorf("got %q", got)
	}
}

// TestTestsThatAreNamedAfterTheirFileHaveOneNameInAllBuilds: each build has a workspace of its own.
func TestTestsThatAreNamedAfterTheirFileHaveOneNameInAllBuilds(t *testing.T) {
	t.Parallel()
	const file = `<testsuites><testsuite name="/w/5/repo/unit"><testcase name="/w/5/repo/test/parse.js" classname="test"/>` +
		`<testcase name="reads /w/5/repo/x" classname="/w/5/repo/test/utils.js"/></testsuite></testsuites>`
	report, err := testresult.Parse(testresult.JUnit, strings.NewReader(file), "/w/5/repo", testresult.NewRoom())
	if err != nil {
		t.Fatal(err)
	}
	want := []testresult.Result{{Suite: "unit", Name: "test/parse.js", Outcome: testresult.Passed},
		{Suite: "test/utils.js", Name: "reads /w/5/repo/x", Outcome: testresult.Passed}}
	if diff := cmp.Diff(want, report.Results); diff != "" {
		t.Error(diff)
	}
}
