package broker_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/waybill-dev/waybill/internal/services"
)

// TestIDsHaveAnyCharacters: ids are opaque, and none is taken for another or for a part of the address.
func TestIDsHaveAnyCharacters(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		ids := []string{"a", "A", "a/b", "a/b/last_operation", "a//b", "..", ".", "../catalog", "last_operation", "service_bindings", "%2F",
			"%", "a b", " ", "+", "ä", "a\u0308", "\U0001f600", "\u200b", "\x01", "\n", "\r\n", "\x7f", "'; --", `"`, "\\", "?", "#", ";", "&", "=",
			"{instance}", "osb", "a/provision", strings.Repeat("x", 255), strings.Repeat("ä", 127)}
		for _, id := range ids {
			operation := w.send(provision(id)).operation()
			state, err := w.ledger.Action(t.Context(), operation)
			check(t, err)
			if state.UniqueKey != "osb/"+id+"/provision" {
				t.Errorf("id %q: the key is %q", id, state.UniqueKey)
			}
			w.finish(id, done("made"))
		}
		for _, id := range ids {
			w.send(provision(id)).want(200, "")
			w.send(get(id)).want(200, "")
			w.send(poll(id, "")).want(200, "")
			w.send(bind("a", id)).want(201, "")
		}
		for _, id := range ids {
			w.send(getBinding("a", id)).want(200, "")
			w.send(unbind("a", id)).want(200, "")
			w.send(getBinding("a", id)).want(404, "NotFound")
		}
		rows := w.stored().Rows
		if len(rows) != len(ids) {
			t.Errorf("%d rows of %d ids", len(rows), len(ids))
		}
		for _, row := range rows {
			w.send(deprovision(row.ID)).operation()
			w.finish(row.ID, done("removed"))
			w.send(get(row.ID)).want(404, "NotFound")
		}
	})
}

func TestRefusedIDs(t *testing.T) {
	onEach(t, func(_ *testing.T, w *world) {
		w.reach("ready", "demo")
		before := w.stored()
		for _, id := range []string{strings.Repeat("x", services.MostID+1), strings.Repeat("ä", 128), "a\x00", "\xff", "\xed\xa0\x80"} {
			for _, r := range []request{provision(id), update(id, 4), deprovision(id), get(id), poll(id, "")} {
				w.send(r).want(http.StatusBadRequest, "InvalidRequest").describes("instance_id")
			}
			for _, r := range []request{bind("demo", id), unbind("demo", id), getBinding("demo", id)} {
				w.send(r).want(http.StatusBadRequest, "InvalidRequest").describes("binding_id")
			}
		}
		w.send(provision("/")).want(http.StatusNotFound, "NotFound") // package http takes it for the end of the address
		w.unchanged(before)
	})
}

// TestTextsThatADatabaseCannotStore: no text of a body is a fault of the broker.
func TestTextsThatADatabaseCannotStore(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		crate := provision("demo").with("service_id", "box").with("plan_id", "crate")
		for i, text := range []string{"\x00", "a\x00b", "\ufffd", "\u2028", `\u0000`} {
			id := "demo-" + string(rune('a'+i))
			r := crate
			r.path = instancePath(id)
			r = r.with("parameters", fields{"data": text, text: 1}).with("context", fields{"text": text})
			w.send(r).operation()
			w.finish(id, done("made"))
			w.send(r).want(200, "")
			if got := w.send(get(id)).fields["parameters"].(map[string]any)["data"]; got != text {
				t.Errorf("%q is fetched as %q", text, got)
			}
		}
		for _, field := range []string{"organization_guid", "space_guid", "service_id", "plan_id"} {
			w.send(crate.with(field, "\x00")).want(400, "InvalidRequest").describes(field)
		}
		for _, field := range []string{"platform", "namespace"} {
			w.send(crate.with("context", fields{field: "\x00"})).want(400, "InvalidRequest").describes("context")
		}
	})
}
