package cachekey

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func decode(t interface{ Fatal(...any) }, text string) any {
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.UseNumber()
	var value any
	if err := decoder.Decode(&value); err != nil {
		t.Fatal(text, err)
	}
	return value
}

func rulesOf(t *testing.T, includes, excludes []string) Rules {
	t.Helper()
	rules, faults := ParseRules(includes, excludes)
	if len(faults) > 0 {
		t.Fatal(faults)
	}
	return rules
}

// The numbers are RFC 8785's appendix B, the object is its section 3.2.3.
func TestCanonicalFormIsThatOfTheStandard(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`-0`: `0`, `5e-324`: `5e-324`, `-5E-324`: `-5e-324`, `1.7976931348623157e308`: `1.7976931348623157e+308`,
		`9007199254740992`: `9007199254740992`, `-9007199254740992`: `-9007199254740992`, `295147905179352830000e0`: `295147905179352830000`,
		`9.999999999999997e22`: `9.999999999999997e+22`, `1E23`: `1e+23`, `1.0000000000000001e23`: `1.0000000000000001e+23`,
		`999999999999999700000.0`: `999999999999999700000`, `333333333.33333329`: `333333333.3333333`,
		`0.0000033333333333333333`: `0.0000033333333333333333`,
		`1.00`:                     `1`, `1e2`: `100`, `0.0000001`: `1e-7`, `12345678901234567890`: `12345678901234567890`,
		`{"\u20ac":"a","\r":1,"\ufb33":2,"1":3,"\ud83d\ude00":4,"\u0080":5,"\u00f6":6}`: "{\"\\r\":1,\"1\":3,\"\u0080\":5,\"ö\":6,\"€\":\"a\",\"😀\":4,\"\ufb33\":2}",
		` [ 56 , { "d" : true , "10" : null , "1" : [ ] } ] `:                           `[56,{"1":[],"10":null,"d":true}]`,
		`"\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/<"`:                              "\"€$\\u000f\\nA'B\\\"\\\\\\\\\\\"/<\"",
	} {
		got, err := appendCanonical(nil, decode(t, text))
		if err != nil || string(got) != want {
			t.Errorf("%s: got %s, %v, want %s", text, got, err, want)
		}
	}
	if _, err := appendCanonical(nil, json.Number("1e999")); err == nil {
		t.Error("a number beyond all doubles has a form")
	}
}

func TestTheDeepestRuleWins(t *testing.T) {
	t.Parallel()
	const value = `{"id": "x", "a.b": 1, "features": [{"id": 1, "at": 2, "p": {"q": 3, "r": 4}}, {"at": 5}], "n": {"m": 6}}`
	for _, c := range []struct {
		name               string
		includes, excludes []string
		want               string
	}{
		{"none", nil, nil, value},
		{"include", []string{".features[].id"}, nil, `{"features": [{"id": 1}]}`},
		{"exclude", nil, []string{".features[].at", ".n"}, `{"id": "x", "a.b": 1, "features": [{"id": 1, "p": {"q": 3, "r": 4}}, {}]}`},
		{"exclude inside include", []string{".features"}, []string{".features[].p"}, `{"features": [{"id": 1, "at": 2}, {"at": 5}]}`},
		{"include inside exclude", []string{".features", ".features[].p.q"}, []string{".features[].p"},
			`{"features": [{"id": 1, "at": 2, "p": {"q": 3}}, {"at": 5}]}`},
		{"quoted", []string{`."a.b"`, ".n.m"}, nil, `{"a.b": 1, "n": {"m": 6}}`},
		{"absent", []string{".no[].where"}, nil, `{}`},
		{"another kind", []string{".id.x", ".features.id"}, nil, `{}`},
		{"all", nil, []string{"."}, `{}`},
	} {
		got := rulesOf(t, c.includes, c.excludes).Keep(decode(t, value))
		if diff := cmp.Diff(decode(t, c.want), got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
	}
	list := rulesOf(t, []string{".[].id"}, nil).Keep(decode(t, `[{"id": 1, "x": 2}]`))
	if diff := cmp.Diff(decode(t, `[{"id": 1}]`), list); diff != "" {
		t.Errorf("a list (-want +got):\n%s", diff)
	}
}

func TestWrongRulesAreTold(t *testing.T) {
	t.Parallel()
	_, faults := ParseRules([]string{".a", "a", "", ".a[0]", ".a..b", `."x`, "[]", "..", ".a[]b", ".a", ".a[].c"},
		[]string{".b", ".a", ".b", ".[].c", ".a.d"})
	var got []string
	for _, f := range faults {
		got = append(got, f.List+" "+f.Error())
	}
	want := []string{
		`cacheKeyHashIncludes "a" is not a valid path: want a path such as .features[].id`,
		`cacheKeyHashIncludes "" is not a valid path: want a path such as .features[].id`,
		`cacheKeyHashIncludes ".a[0]" is not a valid path: want a path such as .features[].id`,
		`cacheKeyHashIncludes ".a..b" is not a valid path: want a path such as .features[].id`,
		`cacheKeyHashIncludes ".\"x" is not a valid path: a quoted key does not end well: unexpected EOF`,
		`cacheKeyHashIncludes "[]" is not a valid path: want a path such as .features[].id`,
		`cacheKeyHashIncludes ".." is not a valid path: want a path such as .features[].id`,
		`cacheKeyHashIncludes ".a[]b" is not a valid path: want a path such as .features[].id`,
		`cacheKeyHashIncludes .a is listed twice`,
		`cacheKeyHashExcludes .a is included and excluded`,
		`cacheKeyHashExcludes .b is listed twice`,
		`cacheKeyHashExcludes .[].c contradicts another rule: one wants a list at part 1, the other an object`,
		`cacheKeyHashExcludes .a.d contradicts another rule: one wants a list at part 2, the other an object`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestKeysAreThoseOfWhatCounts(t *testing.T) {
	t.Parallel()
	rules := rulesOf(t, nil, []string{".at"})
	key := func(process, text string) Key {
		k, err := KeyOf(process, rules, decode(t, text))
		if err != nil {
			t.Fatal(err)
		}
		if k[6]>>4 != 5 || k[8]>>6 != 2 {
			t.Errorf("%x is not a UUID version 5", k)
		}
		return k
	}
	same := key("mirror", `{"a": 1, "b": [2.0, "x"], "at": 1}`)
	if key("mirror", `{"b":[2,"\u0078"],"at":2,"a":1e0}`) != same {
		t.Error("order, spelling or what is excluded changes the key")
	}
	for process, text := range map[string]string{"mirrors": `{"a": 1, "b": [2, "x"]}`, "mirror": `{"a": 1, "b": ["x", 2]}`} {
		if key(process, text) == same {
			t.Errorf("%s %s has the same key", process, text)
		}
	}
	if key("a", `{"n": 9007199254740993}`) == key("a", `{"n": 9007199254740992}`) {
		t.Error("two integers that are one double have one key")
	}
}

// TestPayloadsThatRulesDoNotFitHaveNoKey checks that a payload that the rules do not fit has no key. The reduced form
// of such payloads would be one key for all.
func TestPayloadsThatRulesDoNotFitHaveNoKey(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		includes, excludes []string
		value, at, want    string
	}{
		{[]string{".features[].id", ".name"}, nil, `{"a": 1}`, "", "none of cacheKeyHashIncludes is found: .features[].id, .name"},
		{[]string{".features[].id"}, nil, `{"features": [{"name": 1}]}`, "", "none of cacheKeyHashIncludes is found: .features[].id"},
		{[]string{".features[].id"}, nil, `{"features": null}`, "", "none of cacheKeyHashIncludes is found: .features[].id"},
		{[]string{".features[].id"}, nil, `{"features": {"id": 1}}`, "/features",
			"cacheKeyHashIncludes .features[].id wants a list here, found an object"},
		{[]string{".features[].id"}, nil, `{"features": [{"id": 1}, [1]]}`, "/features/1",
			"cacheKeyHashIncludes .features[].id wants an object here, found a list"},
		{[]string{`."a/b".c`}, nil, `{"a/b": "text"}`, "/a~1b", `cacheKeyHashIncludes ."a/b".c wants an object here, found a text`},
		{nil, []string{".at"}, `[1]`, "", "cacheKeyHashExcludes .at wants an object here, found a list"},
		{nil, []string{".a.b"}, `{"a": 1}`, "/a", "cacheKeyHashExcludes .a.b wants an object here, found a number"},
		{nil, []string{".a[]"}, `{"a": true}`, "/a", "cacheKeyHashExcludes .a[] wants a list here, found a boolean"},
		{[]string{".features[].id"}, nil, `{"features": []}`, "", ""},
		{[]string{".features[].id"}, nil, `{"features": [{}, {"id": null}]}`, "", ""},
		{[]string{".features[].id", ".name"}, nil, `{"name": "x"}`, "", ""},
		{nil, []string{".at"}, `{}`, "", ""},
		{[]string{"."}, nil, `1`, "", ""},
	} {
		_, err := KeyOf("mirror", rulesOf(t, c.includes, c.excludes), decode(t, c.value))
		misfit, _ := errors.AsType[*Misfit](err)
		if misfit == nil {
			misfit = &Misfit{}
		}
		if misfit.Text != c.want || misfit.At != c.at {
			t.Errorf("%v without %v of %s: got %q at %q, want %q at %q", c.includes, c.excludes, c.value, misfit.Text, misfit.At, c.want, c.at)
		}
	}
}

func TestCanonicalFormIsReadAsTheSame(t *testing.T) {
	t.Parallel()
	value := rapid.Custom(func(t *rapid.T) any { return drawValue(t, 3) })
	rapid.Check(t, func(t *rapid.T) {
		v := value.Draw(t, "value")
		first, err := appendCanonical(nil, v)
		if err != nil {
			t.Fatal(err)
		}
		again, err := appendCanonical(nil, decode(t, string(first)))
		if err != nil || string(again) != string(first) {
			t.Fatalf("%s is read as %s, %v", first, again, err)
		}
	})
}

func drawValue(t *rapid.T, depth int) any {
	switch kind := rapid.IntRange(0, 3+min(depth, 2)).Draw(t, "kind"); kind {
	case 0:
		return nil
	case 1:
		return rapid.Bool().Draw(t, "bool")
	case 2:
		return rapid.String().Draw(t, "text")
	case 3:
		raw, _ := json.Marshal(rapid.Float64Range(-1e300, 1e300).Draw(t, "number"))
		return json.Number(raw)
	case 4:
		list := []any{}
		for range rapid.IntRange(0, 3).Draw(t, "length") {
			list = append(list, drawValue(t, depth-1))
		}
		return list
	default:
		object := map[string]any{}
		for range rapid.IntRange(0, 3).Draw(t, "fields") {
			object[rapid.String().Draw(t, "key")] = drawValue(t, depth-1)
		}
		return object
	}
}
