package controller

import (
	"slices"
	"strconv"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/waybill-dev/waybill/internal/flow"
)

func isPermanent(of schema.GroupKind) bool { return slices.Contains(permanent(), of) }

// versionOf returns a version of an object as a number: the API server counts the versions of a kind. 0: it is not one.
func versionOf(text string) uint64 {
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// isOlderVersion reports whether a version is known to be older than another.
func isOlderVersion(a, b string) bool {
	x, y := versionOf(a), versionOf(b)
	return x > 0 && y > 0 && x < y
}

func isOlder(a, b *flow.Object) bool { return isOlderVersion(a.ResourceVersion, b.ResourceVersion) }
