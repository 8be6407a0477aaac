package step

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/pipeline"
)

// TestErrorsOfAHostHoldNoSecret: whatever fails while it prints secrets, the log keeps only their names.
func TestErrorsOfAHostHoldNoSecret(t *testing.T) {
	underEach(t, func(t *testing.T, w *world) {
		password := filepath.Join(filepath.Dir(w.home), "password")
		write := func(path, text string) {
			t.Helper()
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		check := func(what string, o action.Outcome) {
			t.Helper()
			notes, _ := json.Marshal(w.reports) // plain structures always marshal
			if text := o.Error + string(notes); strings.Contains(text, "hunter") || !strings.Contains(text, "[secret:PASSWORD]") {
				t.Errorf("%s: %s", what, text)
			}
		}
		write(password, "hunter-two\nhunter-three\n")
		w.service.Secrets = map[string]string{"PASSWORD": "password"}
		w.service.Ready.Within = 20 * w.service.Ready.For
		w.revise(1, `printf 'it is %s\n' "$PASSWORD"; printf %s "$PASSWORD" >../../said; [ ! -f ../../die ] || exit 7; `+forever)
		w.revise(2, `echo "$PASSWORD"; exit 3`)

		w.ship(1)
		w.test = []pipeline.Check{{Run: []string{"sh", "-c", "cat ../../said; exit 1"}}}
		check("a test", w.do(t.Context(), 1, pipeline.HostTested))
		w.test = nil

		w.done(2, pipeline.HostReplicated)
		check("a service that does not start", w.do(t.Context(), 2, pipeline.HostDeployed))

		write(filepath.Join(w.dir, "die"), "")
		d := w.definition()
		at, _ := d.Place("greeter/beta/all/oak")
		log, known, err := w.handler.config.ReadLog(t.Context(), at, &w.service, LogQuery{Most: 1000})
		if text := string(log.Text); err != nil || !known || strings.Contains(text, "hunter") || !strings.Contains(text, "[secret:PASSWORD]") {
			t.Errorf("its log: %q, %t, %v", log.Text, known, err)
		}
		check("a restart", w.restart(t.Context(), 1, "restart"))

		w.service.Before = []string{"sh", "-c", "cat ../../said; exit 1"}
		w.revise(3, forever)
		w.done(3, pipeline.HostReplicated)
		check("a hook", w.do(t.Context(), 3, pipeline.HostDeployed))
	})
}
