package githost_test

import (
	"testing"

	"github.com/waybill-dev/waybill/internal/githost"
	"github.com/waybill-dev/waybill/internal/githost/githosttest"
)

// vendors are the types of hosts with a model.
var vendors = []string{githost.GitHub, githost.GitLab, githost.BitbucketServer, githost.BitbucketCloud, githost.AzureDevOps,
	githost.Gitea, githost.Forgejo}

func forEachVendor(t *testing.T, test func(t *testing.T, vendor string)) {
	t.Helper()
	for _, vendor := range vendors {
		t.Run(vendor, func(t *testing.T) {
			t.Parallel()
			test(t, vendor)
		})
	}
}

func TestDriversConform(t *testing.T) {
	t.Parallel()
	forEachVendor(t, func(t *testing.T, vendor string) {
		githosttest.Run(t, func(t *testing.T) githosttest.World { return githosttest.New(t, vendor) })
	})
}
