package local

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"

	"github.com/waybill-dev/waybill/internal/buildcache"
)

// buildCache returns where the steps of a build leave files for later builds of the same repository, else of the same folder; nil if
// nowhere.
func (b *Builder) buildCache(j job) *buildcache.Shelf {
	dir := b.Path(j.flags.CacheDir)
	if j.flags.CacheDir == "" {
		own, err := os.UserCacheDir()
		if err != nil {
			return nil
		}
		dir = filepath.Join(own, "waybill", "builds")
	}
	if j.flags.CacheSize == 0 {
		return nil
	}
	return buildcache.Open(dir, j.flags.CacheSize).Of(j.cacheOwner(b.Environment("WHARF_VAR_REPO_NAME")))
}

// cacheOwner names the builds that share files. Those of a server share them by their project or pipeline: the URL of
// origin is in the files that are built, which may name the repository of another project.
func (j job) cacheOwner(pipeline string) string {
	switch launch := j.flags.Launch; {
	case launch.On() && launch.Repository != nil:
		return fmt.Sprintf("worker of %s: %q %s", launch.Instance, launch.Project, launch.Repository.URL)
	case launch.On():
		return fmt.Sprintf("worker of %s: %q", launch.Instance, cmp.Or(launch.Project, launch.Variables["REPO_NAME"], j.source.name))
	case j.source.unpacked && pipeline != "":
		return pipeline
	case j.source.origin != "": // with its host: another host may have a repository of the same name
		return j.source.origin
	}
	return j.source.name
}
