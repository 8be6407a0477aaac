package pipeline_test

import (
	"testing"

	"github.com/waybill-dev/waybill/internal/pipeline"
)

func TestArchivesThatAreNotUnpackedAreRefusedByName(t *testing.T) {
	t.Parallel()
	for name, refused := range map[string]bool{"a.tar.xz": true, "dist/A.TAR.XZ": true, "*.txz": true, "a.tar.lz4": true,
		"a.tar.Z": true, "a.tlz": true,
		"a.tar": false, "a.tar.gz": false, "a.tgz": false, "a.tar.zst": false, "a.tar.bz2": false, "a.tbz2": false,
		"a.zip": false, "greeter": false,
		"data.xz": false, "a.tar.gz.sig": false, "a.tar.sha256": false, "xz": false, "": false} {
		if err := pipeline.CheckArtifactName(name); (err != nil) != refused {
			t.Errorf("%q: %v, want refused %v", name, err, refused)
		}
	}
}
