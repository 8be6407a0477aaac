package assembly

import (
	"testing"
)

func TestFilesOfOthersAreForeign(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		owner, self int
		sudo        string
		want        bool
	}{
		{1000, 1000, "", false}, {0, 1000, "", false}, {0, 0, "", false}, {1001, 1000, "", true}, {1000, 0, "", true},
		{1000, 0, "1000", false}, {1001, 0, "1000", true}, {1001, 1000, "1001", true}, {1000, 0, "x", true},
	} {
		if got := isForeign(c.owner, c.self, c.sudo); got != c.want {
			t.Errorf("a file of %d for %d (SUDO_UID=%q): %v, want %v", c.owner, c.self, c.sudo, got, c.want)
		}
	}
}
