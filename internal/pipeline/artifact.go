package pipeline

import (
	"fmt"
	"strings"
)

// CheckArtifactName returns an error for the name, or the glob, of a tar that is compressed in a way that hosts' releases are not
// unpacked from: it would become the only file of its release, unseen.
func CheckArtifactName(name string) error {
	lower := strings.ToLower(name)
	for _, ending := range strings.Fields(".tar.xz .tar.lzma .tar.lz .tar.lz4 .tar.lzo .tar.br .tar.z .tar.sz .txz .tlz .taz") {
		if strings.HasSuffix(lower, ending) {
			return fmt.Errorf(
				"artifact %q: archives of the kind %s are not unpacked: make a .tar, .tar.gz, .tar.zst, .tar.bz2 or .zip", name, ending)
		}
	}
	return nil
}
