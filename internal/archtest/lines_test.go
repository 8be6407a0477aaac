package archtest_test

import (
	"testing"

	"github.com/waybill-dev/waybill/internal/archtest"
)

// manyParameters is the number of product functions with more than four parameters. It can only fall.
const manyParameters = 56

func loadProduct(t *testing.T) []archtest.File {
	t.Helper()
	files, err := archtest.LoadProduct("../..")
	if err != nil {
		t.Fatal(err)
	}
	if len(files) < 500 {
		t.Fatalf("read %d files: the rules would hold for nothing", len(files))
	}
	return files
}

func TestPartsKeepTheirSize(t *testing.T) {
	for i, lines := range archtest.LinesOf(loadProduct(t)) {
		part := archtest.Parts[i]
		if lines > part.Ceiling {
			t.Errorf("%s: %d lines, %d are allowed: remove what two places do, or say in ARCHITECTURE.md for which user the lines are needed, "+
				"and raise the ceiling in lines.go to the next 500", part.Name, lines, part.Ceiling)
		}
	}
}

func TestFunctionsHaveFewParameters(t *testing.T) {
	var found []string
	for _, f := range loadProduct(t) {
		found = append(found, archtest.ManyParameters(f)...)
	}
	if len(found) > manyParameters {
		t.Errorf("%d functions have more than four parameters, %d are allowed: parameters that belong together are a type, or the receiver "+
			"has them: %q", len(found), manyParameters, found)
	}
}
