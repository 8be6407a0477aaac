package workerv1_test

import (
	"testing"

	workerv1 "github.com/waybill-dev/waybill/api/worker/v1"
)

// TestEveryStatusHasAName: of the protocol, and another each.
func TestEveryStatusHasAName(t *testing.T) {
	t.Parallel()
	for number := range workerv1.Status_name {
		s := workerv1.Status(number)
		if known := s != workerv1.Status_STATUS_UNSPECIFIED; known == (s.Name() == s.String()) || workerv1.StatusOf(s.Name()) != s {
			t.Errorf("%s has the name %q, which is that of %s", s, s.Name(), workerv1.StatusOf(s.Name()))
		}
	}
	if unknown := workerv1.Status(99); unknown.Name() != "99" || workerv1.StatusOf("99") != workerv1.Status_STATUS_UNSPECIFIED {
		t.Errorf("%q", unknown.Name())
	}
}
