package cloudevent_test

import (
	"encoding/json"
	"net/http"
	"testing"

	"github.com/waybill-dev/waybill/internal/cloudevent"
)

func TestHeadersAreDecoded(t *testing.T) {
	for _, c := range []struct{ value, want, fault string }{
		{value: "plain", want: "plain"},
		{value: "two words", want: "two words"},
		{value: "\t padded ", want: "padded"},
		{value: "Euro%20%E2%82%AC%20%F0%9F%98%80", want: "Euro € 😀"},
		{value: "%e2%82%ac%41", want: "€A"},
		{value: "100%25", want: "100%"},
		{value: "%2541", want: "%41"}, // once
		{value: "%22quoted%22", want: `"quoted"`},
		{value: `"two words"`, want: "two words"},
		{value: `"cry \"hi\" \\ \a"`, want: `cry "hi" \ a`},
		{value: `"a%20b"`, want: "a b"},
		{value: `""`, want: ""},
		{value: "", want: ""},
		{value: "a+b", want: "a+b"},
		{value: "it's (fine), back\\slash;", want: "it's (fine), back\\slash;"},
		{value: "%C0%A0", fault: `attribute "x": not valid UTF-8`},
		{value: "%ED%A0%80", fault: `attribute "x": not valid UTF-8`},
		{value: "%E2%82", fault: `attribute "x": not valid UTF-8`},
		{value: "%00", fault: `attribute "x": it has a control character`},
		{value: "%0A", fault: `attribute "x": it has a control character`},
		{value: "%C2%85", fault: `attribute "x": it has a control character`},
		{value: "%7f", fault: `attribute "x": it has a control character`},
		// senders that encode nothing
		{value: "%", want: "%"},
		{value: "50% off", want: "50% off"},
		{value: "%4", want: "%4"},
		{value: "%+1", want: "%+1"},
		{value: `cry "hi"`, want: `cry "hi"`},
		{value: `"a" b`, want: `"a" b`},
		{value: `"a`, want: `"a`},
		{value: `"`, want: `"`},
		{value: `"a\"`, want: `"a\"`},
		{value: `"a\`, want: `"a\`},
		{value: "grün", want: "grün"},
		{value: "gr\xfcn", fault: `attribute "x": not valid UTF-8`},
		{value: "a\tb", fault: `attribute "x": it has a control character`},
		{value: `"a` + "\x7f" + `"`, fault: `attribute "x": it has a control character`},
	} {
		h := headers(required)
		h["Ce-X"] = []string{c.value}
		events, _, err := cloudevent.Read(h, nil)
		if c.fault != "" {
			if err == nil || err.Error() != c.fault {
				t.Errorf("%q: got %v, want %s", c.value, err, c.fault)
			}
			continue
		}
		if err != nil {
			t.Errorf("%q: %v", c.value, err)
			continue
		}
		if got, ok := events[0].Attribute("x"); got != c.want || !ok {
			t.Errorf("%q: got %q, %v; want %q", c.value, got, ok, c.want)
		}
	}
}

// TestHeadersThatDifferInCaseAreRepeated checks headers that were not put into canonical form.
func TestHeadersThatDifferInCaseAreRepeated(t *testing.T) {
	h := headers(required)
	h["ce-id"] = []string{"1"}
	_, _, err := cloudevent.Read(h, nil)
	if want := `attribute "id": the header is repeated`; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
	if _, _, err := cloudevent.Read(http.Header{"CE-SPECVERSION": {"1.0"}, "ce-Id": {"1"}, "cE-source": {"/"},
		"ce-type": {"t"}}, nil); err != nil {
		t.Error(err)
	}
}

// accepts reports whether an event with this attribute is read.
func accepts(t *testing.T, name, value string) bool {
	t.Helper()
	members := map[string]string{"specversion": "1.0", "id": "1", "source": "/shop", "type": "made"}
	members[name] = value
	body, err := json.Marshal(members)
	if err != nil {
		t.Fatal(err)
	}
	_, err = read(string(body))
	return err == nil
}

func TestURIsFollowTheStandard(t *testing.T) {
	for text, want := range map[string]struct{ reference, absolute bool }{
		"https://example.org":                       {true, true},
		"https://example.org/a/b;c=1?d=e/f?g":       {true, true},
		"http://u:p@example.org:80/":                {true, true},
		"http://[2001:db8::7]:8080/":                {true, true},
		"http://[::ffff:1.2.3.4]":                   {true, true},
		"http://[v1.x:y]/":                          {true, true},
		"http://1.2.3.4:/":                          {true, true},
		"http://%7Ehost/":                           {true, true},
		"urn:uuid:6e8bc430-9c3a-11d9-9669-0800200c": {true, true},
		"mailto:shop@example.org":                   {true, true},
		"a:":                                        {true, true},
		"a+b-c.1:x":                                 {true, true},
		"file:///etc":                               {true, true},
		"https://example.org/#part":                 {true, false},
		"https://example.org/#":                     {true, false},
		"/shop":                                     {true, false},
		"//example.org/a":                           {true, false},
		"shop/7:eu":                                 {true, false},
		"./a:b":                                     {true, false},
		"?q=1":                                      {true, false},
		"#top":                                      {true, false},
		"1-555-123-4567":                            {true, false},
		"sensors/tn-1234567/alerts":                 {true, false},
		"/a%20b":                                    {true, false},
		"two words":                                 {},
		"/grün":                                     {},
		"/a%2":                                      {},
		"/a%zz":                                     {},
		"/a<b>":                                     {},
		"/a[0]":                                     {},
		"/a?b[0]=c":                                 {},
		"/a\\b":                                     {},
		"/a{b}":                                     {},
		"/a|b":                                      {},
		"/a^b":                                      {},
		"/a`b":                                      {},
		`/a"b`:                                      {},
		"a#b#c":                                     {},
		"1a:b":                                      {},
		"a_b:c":                                     {},
		":a":                                        {},
		"http://[::1":                               {},
		"http://[::1]x":                             {},
		"http://[1.2.3.4]/":                         {},
		"http://[fe80::1%25eth0]/":                  {},
		"http://[x]/":                               {},
		"http://a b/":                               {},
		"http://host:port/":                         {},
		"http://a:1:2/":                             {},
		"http://a@b@c/":                             {},
		"http://u[@host/":                           {},
	} {
		if got := accepts(t, "source", text); got != want.reference {
			t.Errorf("source %q: accepted is %v, want %v", text, got, want.reference)
		}
		if got := accepts(t, "dataschema", text); got != want.absolute {
			t.Errorf("dataschema %q: accepted is %v, want %v", text, got, want.absolute)
		}
	}
}

func TestTimesFollowTheStandard(t *testing.T) {
	for text, want := range map[string]bool{
		"2026-02-03T04:05:06Z":                true,
		"2026-02-03t04:05:06z":                true,
		"2026-02-03T04:05:06.123456789012Z":   true,
		"2026-02-03T04:05:06+05:30":           true,
		"2026-02-03T04:05:06-00:00":           true,
		"2024-02-29T00:00:00Z":                true,
		"0000-01-01T00:00:00Z":                true,
		"1990-12-31T23:59:60Z":                true,
		"1990-12-31T15:59:60.5-08:00":         true,
		"1990-12-31T22:59:60Z":                false,
		"1990-12-31T23:59:60-08:00":           false,
		"1990-12-31T23:59:61Z":                false,
		"2026-02-29T00:00:00Z":                false,
		"2026-13-01T00:00:00Z":                false,
		"2026-02-03T24:00:00Z":                false,
		"2026-02-03T04:60:00Z":                false,
		"2026-02-03T04:05:06+24:00":           false,
		"2026-02-03T04:05:06+05:60":           false,
		"2026-02-03T4:05:06Z":                 false,
		"2026-02-03T04:05:06,5Z":              false,
		"2026-02-03T04:05:06.Z":               false,
		"2026-02-03 04:05:06Z":                false,
		"2026-02-03T04:05:06":                 false,
		"2026-02-03T04:05Z":                   false,
		"2026-02-03":                          false,
		" 2026-02-03T04:05:06Z":               false,
		"+2026-02-03T04:05:06Z":               false,
		"Tue, 03 Feb 2026 04:05:06 GMT":       false,
		"1770091506":                          false,
		"2026-02-03T04:05:06Z[Europe/Berlin]": false,
	} {
		if got := accepts(t, "time", text); got != want {
			t.Errorf("%q: accepted is %v, want %v", text, got, want)
		}
	}
}

func TestMediaTypesFollowTheStandard(t *testing.T) {
	for text, want := range map[string]bool{
		"application/json": true, "text/plain; charset=utf-8": true, `a/b; c="d e"`: true, "image/svg+xml": true,
		"json": false, "a/": false, "/b": false, "a/b c": false, "a/b; c": false, "a/b/c": false, "a/b; c=1; c=2": false,
		"text/grün": false,
	} {
		if got := accepts(t, "datacontenttype", text); got != want {
			t.Errorf("%q: accepted is %v, want %v", text, got, want)
		}
	}
}

func TestIsName(t *testing.T) {
	for name, want := range map[string]bool{"type": true, "x1": true, "1x": true,
		"": false, "data": false, "data_base64": false,
		"Type": false,
		"my-x": false, "ü": false, "dataref": true} {
		if got := cloudevent.IsName(name); got != want {
			t.Errorf("IsName(%q) is %v, want %v", name, got, want)
		}
	}
}

// TestAddressesOfSendersThatEncodeNothing: the percent sign of an address is read literally where the decoded text is not an address.
func TestAddressesOfSendersThatEncodeNothing(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]string{"/a%20b": "/a%20b", "/a%2520b": "/a%20b", "/a%41": "/aA"} {
		h := headers(required)
		h["Ce-Source"] = []string{value}
		events, _, err := cloudevent.Read(h, nil)
		if err != nil || events[0].Source != want {
			t.Errorf("%q: got %+v, %v, want %q", value, events, err, want)
		}
	}
}
