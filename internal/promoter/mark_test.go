package promoter_test

import (
	"encoding/base64"
	"fmt"
	"net/netip"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/waybill-dev/waybill/internal/git/gittest"
	"github.com/waybill-dev/waybill/internal/git/mirror"
	"github.com/waybill-dev/waybill/internal/githost"
	"github.com/waybill-dev/waybill/internal/promoter"
	"github.com/waybill-dev/waybill/internal/promotions"
	"github.com/waybill-dev/waybill/internal/webhook"
)

// fleet returns the file of both environments.
func fleet(dev, prod string) map[string]string {
	return map[string]string{"podinfo.yaml": "dev: " + dev + ` # {"$promotion": "apps:podinfo:dev"}` + "\n" +
		"prod: " + prod + ` # {"$promotion": "apps:podinfo:prod"}` + "\n"}
}

// targets returns the revisions of the environments' targets, with the reason of unknown ones.
func targets(v promotions.View) map[string]string {
	found := map[string]string{}
	for _, env := range v.Environments {
		for _, target := range env.Targets {
			found[env.Name] = target.Revision + string(target.Reason)
		}
	}
	return found
}

// newMarkWorld returns a world with a repository that has the markers of both environments, and pipeline, which sets the definition of
// a generation with settings of its strategy.
func newMarkWorld(t *testing.T) (w *world, git *gittest.Host, pipeline func(generation int64, settings string)) {
	w = newWorld(t)
	git = gittest.New(t, fleet("6.5.4", "6.5.4"))
	encode := func(text []byte) string { return base64.StdEncoding.EncodeToString(text) }
	w.management.Add(schema.GroupVersionResource{Version: "v1", Resource: "secrets"}, w.object(`
		{apiVersion: v1, kind: Secret, metadata: {name: fleet, namespace: apps}, data: {username: `+encode([]byte(gittest.User))+
		`, password: `+encode([]byte(gittest.Password))+`, caFile: `+encode(git.CA())+`}}`))
	mirrors, err := mirror.Open(mirror.Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	w.more = func(c *promoter.Config) {
		c.Mirrors, c.ProposalsEvery = mirrors, time.Hour
		c.Hosts = githost.NewHosts(githost.Options{Guard: webhook.Guard{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}})
	}
	return w, git, func(generation int64, settings string) {
		t.Helper()
		object := w.object(`{apiVersion: pipelines.weave.works/v1alpha1, kind: Pipeline,
			metadata: {name: podinfo, namespace: apps, generation: ` + fmt.Sprint(generation) + `}, spec: {versionSource: {type: marker},
			appRef: {apiVersion: kustomize.toolkit.fluxcd.io/v1, kind: Kustomization, name: podinfo},
			promotion: {strategy: {pull-request: {type: gitea, url: "` + git.URL() + `", baseBranch: main,
				secretRef: {name: fleet}` + settings + `}}},
			environments: [{name: dev, targets: [{namespace: dev}]},
				{name: prod, targets: [{namespace: prod, clusterRef: {kind: GitopsCluster, name: leaf}}]}]}}`)
		w.management.Add(pipelines, object)
	}
}

func TestMarkersAreAVersionSource(t *testing.T) {
	t.Parallel()
	w, git, pipeline := newMarkWorld(t)
	pipeline(1, "")
	first := git.Tip("main")
	git.Write(map[string]string{"podinfo.yaml": "dev: [6.5.4]\n"})
	unmarked := git.Commit("main")
	w.at("dev", "main@sha1:"+first)
	w.at("prod", "main@sha1:"+unmarked)
	w.start()
	w.await("the value at the marker of dev, and none in prod", func(v promotions.View) bool {
		found := targets(v)
		return found["dev"] == "6.5.4" && found["prod"] == "NoRevision"
	})
	w.at("prod", "main@sha1:"+first)
	w.await("the value at the marker of prod", func(v promotions.View) bool { return targets(v)["prod"] == "6.5.4" })
	git.Write(fleet("6.6.0", "6.5.4"))
	second := git.Commit("main") // both environments follow one branch
	w.at("dev", "main@sha1:"+second)
	w.at("prod", "main@sha1:"+second)
	w.await("prod wants the revision of dev", func(v promotions.View) bool {
		return len(v.Environments) == 2 && v.Environments[1].Want == "6.6.0" && targets(v)["prod"] == "6.5.4"
	})
}

// A definition that corrects where markers are is read at once, also in a commit that was read before.
func TestMarkersAreReadAgainInOtherPaths(t *testing.T) {
	t.Parallel()
	w, git, pipeline := newMarkWorld(t)
	pipeline(1, ", paths: [elsewhere]")
	w.at("dev", "main@sha1:"+git.Tip("main"))
	w.at("prod", "main@sha1:"+git.Tip("main"))
	w.start()
	w.await("no value is found in the wrong paths", func(v promotions.View) bool { return targets(v)["dev"] == "NoRevision" })
	pipeline(2, ", paths: [podinfo.yaml]")
	w.await("the value is found in the right paths", func(v promotions.View) bool { return targets(v)["dev"] == "6.5.4" })
}
