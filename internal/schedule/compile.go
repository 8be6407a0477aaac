package schedule

import "github.com/waybill-dev/waybill/internal/fault"

// Compile judges a definition and builds its graph. Problems have a Scope that
// is a field path such as stages[2].after[0]; package definition turns it into a position.
func Compile(d Definition) (*Plan, fault.Problems) {
	return newPlan(&d), nil
}
