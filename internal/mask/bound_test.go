package mask

import (
	"strings"
	"testing"
)

// TestSpecialCharactersDoNotTakeAllMemory: each is long in every encoding.
func TestSpecialCharactersDoNotTakeAllMemory(t *testing.T) {
	t.Parallel()
	var secrets []string
	for i := range 64 {
		secrets = append(secrets, strings.Repeat("é\"&'漢", 50)+strings.Repeat("x", i))
	}
	size := 0
	for _, needle := range needlesOf(secrets) {
		size += len(needle.text)
	}
	if size > 3<<20 {
		t.Errorf("the needles have %d bytes", size)
	}
}
