package promoter

import (
	"strings"
	"testing"
	"time"
)

// A look that does not return makes the process not ready, at stages of a waybill.yaml too.
func TestAStuckLookIsNotReady(t *testing.T) {
	t.Parallel()
	p := &Promoter{}
	if err := p.Ready(); err != nil {
		t.Errorf("an instance that does not lead: %v", err)
	}
	one := &term{Promoter: p, looking: map[string]time.Time{}, changes: map[string]time.Time{}}
	p.setTerms(nil, one)
	_, end := one.begin("waybill.yaml:shop")
	if err := p.Ready(); err != nil {
		t.Errorf("while it looks: %v", err)
	}
	one.looking["waybill.yaml:shop"] = time.Now().Add(-2 * stuckAfter)
	if err := p.Ready(); err == nil || !strings.Contains(err.Error(), "a look at waybill.yaml:shop has not returned for") {
		t.Errorf("a look that has not returned: %v", err)
	}
	end()
	if err := p.Ready(); err != nil {
		t.Errorf("after its end: %v", err)
	}
}
