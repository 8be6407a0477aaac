package promotionstest

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/waybill-dev/waybill/internal/promotion"
	"github.com/waybill-dev/waybill/internal/promotions"
	"github.com/waybill-dev/waybill/internal/store"
	"github.com/waybill-dev/waybill/internal/store/storetest"
)

// statementsReadTheirPipelineOnly: no statement about one pipeline reads the rows of all.
func statementsReadTheirPipelineOnly(t *testing.T, s setup) {
	s.fill(t, 5000, 10_000)
	runs := []int64{7, 8}
	for what, statements := range map[string]func(promotions.Rows) error{
		"lock": func(tx promotions.Rows) error {
			_, err := tx.LockPromotions([]string{"apps:p7"}, []string{"u8"})
			return err
		},
		"heads": func(tx promotions.Rows) error {
			_, err := tx.PromotionHeads(promotions.HeadQuery{Name: "apps:p7"})
			return err
		},
		"needed": func(tx promotions.Rows) error { _, err := tx.NeededRuns(7, 20); return err },
		"runs": func(tx promotions.Rows) error {
			_, err := tx.PromotionRuns(promotions.RunQuery{Head: 7, Numbers: runs})
			return err
		},
		"open": func(tx promotions.Rows) error {
			_, err := tx.PromotionRuns(promotions.RunQuery{Head: 7, Open: true})
			return err
		},
		"a page": func(tx promotions.Rows) error { _, err := tx.PromotionRuns(page()); return err },
		"end":    func(tx promotions.Rows) error { return tx.EndRun(7, 7, promotion.Finished, time.Now()) },
		"kept":   func(tx promotions.Rows) error { _, err := tx.KeptRuns(7, time.Now(), 5); return err },
		"facts":  func(tx promotions.Rows) error { _, err := tx.PromotionEntries(facts(runs)); return err },
		"entries": func(tx promotions.Rows) error {
			_, err := tx.PromotionEntries(promotions.EntryQuery{Head: 7, Limit: 5})
			return err
		},
		"sighted":  func(tx promotions.Rows) error { _, err := tx.Sightings(7, 5); return err },
		"intents":  func(tx promotions.Rows) error { _, err := tx.Intents(7, runs, 5); return err },
		"attempts": func(tx promotions.Rows) error { _, err := tx.Attempts(7, runs); return err },
		"all":      func(tx promotions.Rows) error { _, err := tx.Attempts(7, nil); return err },
		"phases":   func(tx promotions.Rows) error { _, err := tx.Phases(7, runs); return err },
	} {
		plans, err := s.driver.Explain(s.ctx, func(rows store.Rows) error { return statements(s.driver.PromotionRows(rows)) })
		storetest.Check(t, err)
		if len(plans) == 0 {
			t.Errorf("%s: no plan", what)
		}
		for line := range strings.Lines(strings.Join(plans, "\n")) {
			if strings.Contains(line, "Seq Scan on promotion_") || strings.Contains(line, "SCAN promotion_") &&
				!strings.Contains(line, "USING") {
				t.Errorf("%s reads a whole table:\n%s", what, strings.Join(plans, "\n"))
			}
		}
	}
}

// page selects a page of the runs of a name.
func page() promotions.RunQuery {
	return promotions.RunQuery{Pipeline: "apps:p7", Before: 900, Limit: 5}
}

// facts selects the facts of runs.
func facts(runs []int64) promotions.EntryQuery {
	return promotions.EntryQuery{Head: 7, Runs: runs, FactsOnly: true}
}

// fill stores rows of all pipelines, so that a planner sees the rows to avoid.
func (s setup) fill(t *testing.T, pipelines, rows int) {
	t.Helper()
	id, at := "gen_random_uuid()", "now()"
	if s.db.Embedded() {
		id, at = "randomblob(16)", "0"
	}
	from := fmt.Sprintf(` FROM (WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < %d) SELECT i FROM n) AS numbers`, rows)
	of := fmt.Sprintf(`i %% %d + 1, i`, pipelines)
	for _, values := range []string{
		`promotion_head (name, uid, seq, newest, created_at) SELECT 'apps:p' || i, 'u' || i, 0, 0, ` + at,
		`promotion_run SELECT ` + of + `, ` + id + `, 'r', '', 'candidate', '', 0, '', '[]', ` + at + `, ` + at + `, 'finished', ''`,
		`promotion_entry SELECT ` + of + `, i, 'prod', '', 'stage-finished-successfully', 0, '', '', NULL, ` + at,
		`promotion_sighting SELECT ` + of + `, 'r', ` + at,
		`promotion_phase SELECT ` + of + `, 'prod', 'Complete', ` + at,
		`promotion_intent SELECT ` + of + `, i, '{}'`,
		`promotion_attempt SELECT ` + of + `, 'prod', 'propose', '', '', '{}'`,
	} {
		storetest.Check(t, s.database.Exec(`INSERT INTO `+values+from))
	}
	storetest.Check(t, s.database.Exec("ANALYZE"))
}
