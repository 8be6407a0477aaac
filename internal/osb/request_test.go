package osb

import (
	"encoding/base64"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// header returns headers of the names and values that alternate in pairs, and of version 2.17 if pairs has none.
func header(pairs ...string) http.Header {
	h := http.Header{}
	for i := 0; i < len(pairs); i += 2 {
		h.Add(pairs[i], pairs[i+1])
	}
	if !slices.Contains(pairs, "X-Broker-API-Version") {
		h.Set("X-Broker-API-Version", "2.17")
	}
	return h
}

func identity(platform, object string) string {
	return platform + " " + base64.StdEncoding.EncodeToString([]byte(object))
}

const ids = `"service_id":"folder","plan_id":"small"`

// whole returns the body of a provision that has all required fields, and more.
func whole(more string) string {
	return `{` + ids + `,"organization_guid":"o","space_guid":"s"` + more + `}`
}

// status returns the status of an error; 200 for none.
func status(t *testing.T, err *Error) int {
	t.Helper()
	if err == nil {
		return http.StatusOK
	}
	if err.Description == "" || err.Code == "" {
		t.Errorf("an error without text: %+v", err)
	}
	return err.Status
}

func TestVersionsOfTheStandard(t *testing.T) {
	t.Parallel()
	for version, want := range map[string]int{
		"2.17": 200, "2.0": 200, "2.9": 200, "2.117": 200, "2.007": 200,
		"": 412, "2": 412, "2.": 412, ".17": 412, "1.17": 412, "3.0": 412, "22.1": 412, "2.17.1": 412, "v2.17": 412, "2.x": 412,
		"2.17 ": 412, "-2.17": 412, "2,17": 412, "2.17\n": 412, "02.17": 412,
	} {
		_, err := Request{Header: http.Header{"X-Broker-Api-Version": {version}}}.Origin()
		if got := status(t, err); got != want {
			t.Errorf("%q: got %d, want %d", version, got, want)
		}
	}
	for name, h := range map[string]http.Header{"missing": {}, "two": {"X-Broker-Api-Version": {"2.17", "2.16"}}} {
		if _, err := (Request{Header: h}).Origin(); status(t, err) != 412 {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

func TestOriginatingIdentities(t *testing.T) {
	t.Parallel()
	const name = "X-Broker-API-Originating-Identity"
	for value, want := range map[string]*Identity{
		identity("cloudfoundry", `{"user_id": "683e", "n": 1.0}`): {Platform: "cloudfoundry", Value: `{"n":1,"user_id":"683e"}`},
		identity("kubernetes", `{}`):                              {Platform: "kubernetes", Value: "{}"},
		"":                                                        nil,
		"cloudfoundry":                                            nil,
		"cloudfoundry ":                                           nil,
		" e30=":                                                   nil,
		"cloudfoundry e30":                                        nil, // without padding
		"cloudfoundry {}":                                         nil,
		"cloudfoundry  e30=":                                      nil,
		identity("cloudfoundry", `[]`):                            nil,
		identity("cloudfoundry", `{"a":1,"a":2}`): nil,
		identity("cloudfoundry", `{"a":1e999}`):   nil,
		identity("cloudfoundry", `{} {}`):         nil,
	} {
		got, err := Request{Header: header(name, value)}.Origin()
		if status(t, err) != map[bool]int{true: 200, false: 400}[want != nil] || !cmp.Equal(got, want) {
			t.Errorf("%q: got %+v, %v, want %+v", value, got, err, want)
		}
	}
	if got, err := (Request{Header: header()}).Origin(); got != nil || err != nil {
		t.Errorf("absent: got %v, %v", got, err)
	}
	twice := header(name, identity("a", "{}"), name, identity("a", "{}"))
	if _, err := (Request{Header: twice}).Origin(); status(t, err) != 400 {
		t.Errorf("two: got %v", err)
	}
}

func TestThePlatformOfTheIdentityIsThatOfTheContext(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		platform, context string
		want              int
	}{
		{"kubernetes", `{"platform":"kubernetes"}`, 200}, {"kubernetes", `{}`, 200}, {"", `{"platform":"kubernetes"}`, 200},
		{"kubernetes", `{"platform":"cloudfoundry"}`, 400}, {"kubernetes", `{"platform":1}`, 400}, {"", `{"namespace":[]}`, 400},
		{"kubernetes", `{"platform":"sapcp","origin":"kubernetes"}`, 200}, {"sapcp", `{"platform":"sapcp","origin":"kubernetes"}`, 200},
		{"kubernetes", `{"platform":"sapcp","origin":"cloudfoundry"}`, 400}, {"kubernetes", `{"platform":"sapcp","origin":["kubernetes"]}`, 400},
	} {
		r := Request{Header: header(), Instance: "i", Binding: "b", Body: []byte(whole(`,"context":` + c.context))}
		if c.platform != "" {
			r.Header = header("X-Broker-API-Originating-Identity", identity(c.platform, "{}"))
		}
		_, put := r.Provision()
		_, patch := r.Update()
		_, bind := r.Bind()
		for name, err := range map[string]*Error{"PUT": put, "PATCH": patch, "bind": bind} {
			if got := status(t, err); got != c.want {
				t.Errorf("%s of %q, %s: got %v, want %d", name, c.platform, c.context, err, c.want)
			}
		}
	}
}

func TestProvisions(t *testing.T) {
	t.Parallel()
	least := Attributes{ServiceID: "folder", PlanID: "small", Organization: "o", Space: "s", Parameters: "{}"}
	with := func(change func(*Attributes)) *Attributes {
		a := least
		change(&a)
		return &a
	}
	for body, want := range map[string]*Attributes{
		whole(``):                     &least,
		whole(`,"new":{"field":[1]}`): &least,
		whole(`,"parameters":null,"context":null,"maintenance_info":null`): &least,
		whole(`,"maintenance_info":{}`):                                    &least,
		whole(`,"maintenance_info":{"version":"","description":"x"}`):      &least,
		whole(`,"maintenance_info":{"version":"2.1.1+abc"}`):               with(func(a *Attributes) { a.Maintenance = "2.1.1+abc" }),
		whole(`,"parameters":{}`):                                          &least,
		whole(`,"parameters":{"b":1.0,"a":"\u0041"}`):                      with(func(a *Attributes) { a.Parameters = `{"a":"A","b":1}` }),
		whole(`,"parameters":{"n":9007199254740993}`):                      with(func(a *Attributes) { a.Parameters = `{"n":9007199254740993}` }),
		whole(`,"context":{"platform":"kubernetes","namespace":"shop","clusterid":"c"}`): with(func(a *Attributes) {
			a.Platform, a.Namespace, a.Context = "kubernetes", "shop", `{"clusterid":"c","namespace":"shop","platform":"kubernetes"}`
		}),
		``: nil, `null`: nil, `[]`: nil, `"x"`: nil, `{`: nil, `{}`: nil, `{"service_id":}`: nil, `<xml/>`: nil,
		whole(``) + `x`:       nil,
		whole(``) + whole(``): nil,
		whole(`,`):            nil,
		whole(`,"a":NaN`):     nil,
		"\ufeff" + whole(``):  nil,
		whole(`,"parameters":{"a":"` + "\xff" + `"}`):                                             nil,
		whole(`,"parameters":{"a":"\ud800"}`):                                                     nil,
		whole(`,"parameters":{"a":1e999}`):                                                        nil,
		whole(`,"parameters":{"a":1,"\u0061":2}`):                                                 nil,
		whole(`,"x":1,"x":1`):                                                                     nil,
		whole(`,"parameters":[]`):                                                                 nil,
		whole(`,"parameters":"{}"`):                                                               nil,
		whole(`,"context":"kubernetes"`):                                                          nil,
		whole(`,"context":{"n":1e999}`):                                                           nil,
		whole(`,"maintenance_info":"1.0.0"`):                                                      nil,
		whole(`,"maintenance_info":{"version":1}`):                                                nil,
		`{"service_id":"folder","plan_id":"small","organization_guid":"o"}`:                       nil,
		`{"service_id":"folder","plan_id":"small","space_guid":"s"}`:                              nil,
		`{"service_id":"folder","organization_guid":"o","space_guid":"s"}`:                        nil,
		`{"plan_id":"small","organization_guid":"o","space_guid":"s"}`:                            nil,
		`{"service_id":"","plan_id":"small","organization_guid":"o","space_guid":"s"}`:            nil,
		`{"service_id":"folder","plan_id":"","organization_guid":"o","space_guid":"s"}`:           nil,
		`{"service_id":"folder","plan_id":"small","organization_guid":"","space_guid":"s"}`:       nil,
		`{"service_id":"folder","plan_id":"small","organization_guid":"o","space_guid":""}`:       nil,
		`{"service_id":1,"plan_id":"small","organization_guid":"o","space_guid":"s"}`:             nil,
		`{"service_id":"folder","plan_id":["small"],"organization_guid":"o","space_guid":"s"}`:    nil,
		`{"service_id":"folder","plan_id":"small","organization_guid":{},"space_guid":"s"}`:       nil,
		`{"service_id":"folder","plan_id":"small","organization_guid":"o","space_guid":null}`:     nil,
		`{"service_id":"folder","plan_id":"small","organization_guid":"o\u0000","space_guid":""}`: nil,
	} {
		got, err := Request{Header: header(), Instance: "demo-1", Query: "accepts_incomplete=true", Body: []byte(body)}.Provision()
		if want == nil {
			if status(t, err) != 400 || !cmp.Equal(got, Provision{}) {
				t.Errorf("%s: got %+v, %v, want 400", body, got, err)
			}
			continue
		}
		if diff := cmp.Diff(Provision{Instance: "demo-1", AcceptsIncomplete: true, Attributes: *want}, got); err != nil || diff != "" {
			t.Errorf("%s: %v (-want +got):\n%s", body, err, diff)
		}
	}
}

func TestUpdateRequests(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]*Update{
		`{"service_id":"folder"}`:                                  {ServiceID: "folder"},
		`{"service_id":"folder","plan_id":null,"parameters":null}`: {ServiceID: "folder"},
		`{` + ids + `,"parameters":{"a":1e0},"maintenance_info":{"version":"1.0.0"},"previous_values":{"plan_id":"x"}}`: {
			ServiceID: "folder", PlanID: "small", Parameters: new(Canonical(`{"a":1}`)), Maintenance: "1.0.0"},
		`{"service_id":"folder","parameters":{}}`: {ServiceID: "folder", Parameters: new(Empty)},
		`{"service_id":"folder","context":{"platform":"kubernetes"}}`: {ServiceID: "folder",
			Context: &Context{Text: `{"platform":"kubernetes"}`, Platform: "kubernetes"}},
		`{"plan_id":"small"}`:                             nil,
		`{"service_id":""}`:                               nil,
		`{"service_id":"folder","plan_id":""}`:            nil,
		`{"service_id":"folder","plan_id":1}`:             nil,
		`{"service_id":"folder","parameters":1}`:          nil,
		`{"service_id":"folder","previous_values":"x"}`:   nil,
		`{"service_id":"folder","maintenance_info":true}`: nil,
	} {
		got, err := Request{Header: header(), Instance: "demo-1", Body: []byte(body)}.Update()
		if want == nil {
			if status(t, err) != 400 {
				t.Errorf("%s: got %+v, %v, want 400", body, got, err)
			}
			continue
		}
		want.Instance = "demo-1"
		if diff := cmp.Diff(*want, got); err != nil || diff != "" {
			t.Errorf("%s: %v (-want +got):\n%s", body, err, diff)
		}
	}
}

func TestBindRequests(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]Canonical{
		`{` + ids + `}`: "{}",
		`{` + ids + `,"parameters":{"a":[]},"app_guid":"a","bind_resource":{"app_guid":"a"},"predecessor_binding_id":null}`: `{"a":[]}`,
		`{"service_id":"folder"}`:                     "",
		`{"plan_id":"small"}`:                         "",
		`{` + ids + `,"parameters":[]}`:               "",
		`{` + ids + `,"bind_resource":"x"}`:           "",
		`{` + ids + `,"app_guid":1}`:                  "",
		`{` + ids + `,"predecessor_binding_id":"b0"}`: "",
	} {
		got, err := Request{Header: header(), Instance: "demo-1", Binding: "b", Body: []byte(body)}.Bind()
		if want == "" {
			if status(t, err) != 400 {
				t.Errorf("%s: got %+v, %v, want 400", body, got, err)
			}
			continue
		}
		read := Bind{Instance: "demo-1", BindingID: "b", ServiceID: "folder", PlanID: "small", Parameters: want}
		if diff := cmp.Diff(read, got); err != nil || diff != "" {
			t.Errorf("%s: %v (-want +got):\n%s", body, err, diff)
		}
	}
}

func TestRemovalsNameServiceAndPlan(t *testing.T) {
	t.Parallel()
	for query, want := range map[string]int{
		"service_id=folder&plan_id=small": 200, "service_id=folder&plan_id=small&x=y": 200,
		"": 400, "service_id=folder": 400, "plan_id=small": 400, "service_id=&plan_id=small": 400, "service_id=folder&plan_id=": 400,
		"service_id=%zz&plan_id=small": 400, "service_id=folder;plan_id=small": 400,
	} {
		r := Request{Header: header(), Instance: "demo-1", Binding: "b", Query: query}
		_, deprovision := r.Deprovision()
		_, unbind := r.Unbind()
		for name, err := range map[string]*Error{"deprovision": deprovision, "unbind": unbind} {
			if got := status(t, err); got != want {
				t.Errorf("%s of %q: got %v, want %d", name, query, err, want)
			}
		}
	}
	got, err := Request{Header: header(), Instance: "demo-1", Query: "accepts_incomplete=true&service_id=a%20b&plan_id=c"}.Deprovision()
	want := Deprovision{Instance: "demo-1", AcceptsIncomplete: true, ServiceID: "a b", PlanID: "c"}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}

func TestOnlyTrueAcceptsAnAsynchronousAnswer(t *testing.T) {
	t.Parallel()
	for query, want := range map[string]bool{
		"accepts_incomplete=true": true, "x=1&accepts_incomplete=true": true,
		"": false, "accepts_incomplete": false, "accepts_incomplete=false": false, "accepts_incomplete=1": false,
		"accepts_incomplete=True": false, "accepts_incomplete=true%20": false, "accepts_incomplete=yes&accepts_incomplete=true": false,
	} {
		r := Request{Header: header(), Instance: "i", Query: query, Body: []byte(whole(``))}
		put, _ := r.Provision()
		patch, _ := r.Update()
		r.Query += "&service_id=a&plan_id=b"
		remove, _ := r.Deprovision()
		if put.AcceptsIncomplete != want || patch.AcceptsIncomplete != want || remove.AcceptsIncomplete != want {
			t.Errorf("%q: got %t, %t, %t, want %t", query, put.AcceptsIncomplete, patch.AcceptsIncomplete, remove.AcceptsIncomplete, want)
		}
	}
}

func TestIDsHaveBounds(t *testing.T) {
	t.Parallel()
	for id, want := range map[string]int{
		"a": 200, strings.Repeat("a", 255): 200, strings.Repeat("ä", 127): 200, "../x y?%41": 200,
		"": 400, strings.Repeat("a", 256): 400, strings.Repeat("ä", 128): 400, "\xff": 400, "a\x00": 400,
	} {
		instance := Request{Header: header(), Instance: id, Binding: "b", Query: "service_id=a&plan_id=b", Body: []byte(whole(``))}
		binding := instance
		binding.Instance, binding.Binding = "i", id
		for name, err := range map[string]*Error{
			"PUT": second(instance.Provision()), "PATCH": second(instance.Update()), "DELETE": second(instance.Deprovision()),
			"GET": second(instance.Fetch()), "bind": second(instance.Bind()), "unbind": second(instance.Unbind()),
			"GET binding": second(instance.FetchBinding()), "bind it": second(binding.Bind()), "unbind it": second(binding.Unbind()),
			"GET it": second(binding.FetchBinding()),
		} {
			if got := status(t, err); got != want {
				t.Errorf("%s of %.20q: got %v, want %d", name, id, err, want)
			}
		}
	}
}

func second[T any](_ T, err *Error) *Error { return err }

// TestIDsAreDecodedOnce checks that the routes of net/http give ids as Request wants them.
func TestIDsAreDecodedOnce(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]string{"demo-1": "demo-1", "a%2Fb": "a/b", "%2541": "%41", "%C3%A4": "ä", "a+b": "a+b"} {
		var got Fetch
		mux := http.NewServeMux()
		mux.HandleFunc("GET /v2/service_instances/{id}", func(_ http.ResponseWriter, r *http.Request) {
			got, _ = Request{Header: r.Header, Instance: r.PathValue("id"), Query: r.URL.RawQuery}.Fetch()
		})
		address, err := url.Parse("/v2/service_instances/" + path)
		if err != nil {
			t.Fatal(err)
		}
		mux.ServeHTTP(nil, &http.Request{Method: http.MethodGet, URL: address, Header: header()})
		if got.Instance != want {
			t.Errorf("%s: got %q, want %q", path, got.Instance, want)
		}
	}
}

// TestChecksHaveAnOrder gives each request one fault more than the one before it.
func TestChecksHaveAnOrder(t *testing.T) {
	t.Parallel()
	const name = "X-Broker-API-Originating-Identity"
	r := Request{Header: header(), Instance: "i", Body: []byte(whole(`,"parameters":1`))}
	step := func(want int, part string) {
		t.Helper()
		if _, err := r.Provision(); status(t, err) != want || !strings.Contains(err.Description, part) {
			t.Errorf("got %v, want %d about %s", err, want, part)
		}
	}
	step(400, "parameters")
	r.Body = []byte(`{"service_id":1,"parameters":1}`)
	step(400, "service_id")
	r.Query = "%zz"
	step(400, "query")
	r.Instance = ""
	step(400, "instance_id")
	r.Header = header(name, "x")
	step(400, "Originating-Identity")
	r.Header = header(name, "x", "X-Broker-API-Version", "1.0")
	step(412, "X-Broker-API-Version")
}

func TestLevelsOfABodyAreBounded(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ open, shut string }{{"[", "]"}, {`{"a":`, "}"}} {
		for levels, want := range map[int]int{98: 200, 99: 400, 500_000: 400} { // the body and parameters are two more
			inner := strings.Repeat(c.open, levels) + "1" + strings.Repeat(c.shut, levels)
			r := Request{Header: header(), Instance: "i", Body: []byte(whole(`,"parameters":{"p":` + inner + `}`))}
			if _, err := r.Provision(); status(t, err) != want {
				t.Errorf("%d of %s: got %v, want %d", levels, c.open, err, want)
			}
			r.Body = []byte(whole(`,"unknown":[` + inner + `]`))
			if _, err := r.Provision(); status(t, err) != want {
				t.Errorf("%d of %s in an unknown field: got %v, want %d", levels, c.open, err, want)
			}
		}
	}
}
