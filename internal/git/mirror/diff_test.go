package mirror

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/waybill-dev/waybill/internal/marker"
)

func TestADiffHasTheLinesAroundEachChange(t *testing.T) {
	t.Parallel()
	files := []edited{{file: file{path: "a.yaml"},
		data: []byte("1\n2\n3\n4\nfive: 6.6.0\n6\n7\n8\n9\n10\n11\n12\n13\nfourteen: 6.6.0\r\n15")},
		{file: file{path: "b.yaml"}, data: []byte("v: 6.6.0")}}
	changed := []marker.Line{{File: "a.yaml", Number: 5, Was: "five: 6.5.4"}, {File: "a.yaml", Number: 14, Was: "fourteen: 6.5.4"},
		{File: "b.yaml", Number: 1, Was: "v: 6.5.4"}}
	want := `--- a/a.yaml
+++ b/a.yaml
@@ -2,7 +2,7 @@
 2
 3
 4
-five: 6.5.4
+five: 6.6.0
 6
 7
 8
@@ -11,5 +11,5 @@
 11
 12
 13
-fourteen: 6.5.4
+fourteen: 6.6.0
 15
\ No newline at end of file
--- a/b.yaml
+++ b/b.yaml
@@ -1,1 +1,1 @@
-v: 6.5.4
\ No newline at end of file
+v: 6.6.0
\ No newline at end of file
`
	if diff := cmp.Diff(want, unifiedDiff(files, changed)); diff != "" {
		t.Error(diff)
	}
}
