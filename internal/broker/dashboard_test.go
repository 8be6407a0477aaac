package broker_test

import "testing"

// TestAnswersHaveTheDashboard: the page of the service instance, if the address of pages is known, with its id percent-encoded.
func TestAnswersHaveTheDashboard(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		const dashboard = "https://ci.example/service-instances/a%2Fb%3F"
		for _, pages := range []string{"https://ci.example", "https://ci.example/"} {
			w.pages.Store(pages)
			a := w.send(provision("a/b?")).want(202, "")
			if a.fields["dashboard_url"] != dashboard || a.fields["operation"] == nil {
				t.Errorf("with pages at %s a provision is answered with %s", pages, a)
			}
		}
		w.finish("a/b?", done("made"))
		for _, r := range []request{provision("a/b?"), get("a/b?"), update("a/b?", 5)} {
			if a := w.send(r); a.fields["dashboard_url"] != dashboard {
				t.Errorf("%s", a)
			}
		}
		w.pages.Store("")
		if a := w.send(get("a/b?")); a.fields["dashboard_url"] != nil {
			t.Errorf("without pages: %s", a)
		}
	})
}
