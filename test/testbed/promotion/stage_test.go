//go:build services

package promotion_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/waybill-dev/waybill/test/testbed"
	"github.com/waybill-dev/waybill/test/testbed/promotion"
)

// shop is a pipeline with a stage that asks, and one with an environment on a cluster of server.yaml.
const shop = `pipeline: shop
stages:
- name: ready
  gates: [{name: quiet, job: {run: ["true"]}}]
- name: prod
  environment:
    app: {apiVersion: helm.toolkit.fluxcd.io/v2, kind: HelmRelease, name: podinfo}
    targets: [{cluster: leaf, namespace: shop-prod}]
    strategy: {pull-request: {type: gitea, url: "%s", baseBranch: main, secretRef: {name: fleet-git}}}
    versionSource: {type: chartVersion}
    soak: 1s
  gates: [{name: same, cel: "targets.all(t, t.status.history[0].chartVersion == '${revision}')"}]
`

const shopRelease = `apiVersion: helm.toolkit.fluxcd.io/v2
kind: HelmRelease
metadata: {name: podinfo, namespace: shop-prod}
spec:
  chart:
    spec:
      chart: podinfo
      version: "%s" # {"$promotion": "waybill.yaml:shop:prod"}
`

// TestAStageOfAWaybillYAMLPromotesToACluster: a deployment ends in an environment, without a Pipeline object and a management cluster.
// Waybill is killed while the pull request is open, and again after its merge.
func TestAStageOfAWaybillYAMLPromotesToACluster(t *testing.T) {
	t.Parallel()
	var cluster *testbed.Cluster
	var host *testbed.GitHost
	testbed.Together(t,
		func() {
			cluster = testbed.Kubernetes(t)
			cluster.InstallFlux(t)
		},
		func() { host = testbed.Gitea(t) })
	host.Organisation(t, "shop")
	repository := host.Repository(t, "shop", "fleet")
	repository.Clone(t).Push(t, "main", "The first version",
		map[string]string{"clusters/prod/podinfo.yaml": fmt.Sprintf(shopRelease, "6.5.4")})
	bot, alice := host.As(t, promotion.Bot), host.As(t, "alice")
	repository.Allow(t, bot.User, "write")
	repository.Allow(t, "alice", "write")
	follower := promotion.Follow(t, host, repository,
		map[string][]*testbed.Application{promotion.Prod: {cluster.HelmRelease(t, "shop-prod", "podinfo")}})
	defer follower.Close()

	s := startShop(t, cluster, bot)
	file := filepath.Join(t.TempDir(), "waybill.yaml")
	if err := os.WriteFile(file, []byte(fmt.Sprintf(shop, repository.URL)), 0o600); err != nil {
		t.Fatal(err)
	}
	s.run(t, "pipeline", "apply", file)
	s.run(t, "revision", "register", "shop", "6.6.0")
	open := func() (pulls []testbed.Pull) { return repository.Pulls(t, "open") }
	s.await(t, "a pull request", func() bool { return len(open()) == 1 })
	s.process.Kill(t)
	s.process.Start(t)
	s.await(t, "the board has the pull request", func() bool {
		return strings.Contains(s.run(t, "deployment", "show", "shop#1"), fmt.Sprintf("/pulls/%d", open()[0].Number))
	})
	repository.As(alice).Merge(t, open()[0].Number, "merge")
	s.process.Kill(t)
	s.process.Start(t)
	s.await(t, "the deployment has finished", func() bool {
		return strings.Contains(s.run(t, "deployment", "list", "shop"), "finished")
	})
	if pulls := repository.Pulls(t, "all"); len(pulls) != 1 || !pulls[0].Merged || pulls[0].Head.Name != "promotion-shop-prod" {
		t.Errorf("the pull requests are %+v, want one, merged", pulls)
	}
	if got := s.run(t, "log", "shop#1"); strings.Count(got, "environment-promoted") == 0 ||
		!strings.Contains(got, "stage-finished-successfully") {
		t.Errorf("the log is\n%s", got)
	}
	if got := s.run(t, "log", "shop#1"); !strings.Contains(got, "gate-passed/same") {
		t.Errorf("the gate is not in the log:\n%s", got)
	}
	if got := s.run(t, "pipeline", "show", "shop"); !strings.Contains(got, "leaf/shop-prod") || !strings.Contains(got, "6.6.0") {
		t.Errorf("the pipeline is\n%s", got)
	}
}

// shopWaybill is a Waybill that runs the pipeline shop.
type shopWaybill struct {
	process       *testbed.Process
	home, program string
}

// startShop starts a Waybill whose server.yaml names the cluster, and the secret of the Git host.
func startShop(t *testing.T, cluster *testbed.Cluster, bot *testbed.GitHost) *shopWaybill {
	t.Helper()
	s := &shopWaybill{home: t.TempDir(), program: product.Path(t, "../../..")}
	keys, err := json.Marshal(map[string]string{"username": bot.User, "password": bot.Token, "token": bot.Token})
	if err != nil {
		t.Fatal(err)
	}
	server := fmt.Sprintf("promoter: {clusters: {leaf: {kubeconfig: %q}}, secrets: [{name: fleet-git, type: file, path: fleet.json}], "+
		"allowNetworks: [127.0.0.0/8], plainHTTP: true, proposalInterval: 1s}\n", cluster.Kubeconfig)
	for name, content := range map[string]string{"fleet.json": string(keys), "server.yaml": server} {
		if err := os.WriteFile(filepath.Join(s.home, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	address := testbed.FreeAddress(t)
	s.process = testbed.RunProgram(t, testbed.Program{Name: "waybill",
		Argv:  []string{s.program, "serve", "api", "conductor", "deployer", "promoter", "--home", s.home, "--listen", address},
		Ready: promotion.Ready("http://" + address)})
	return s
}

// run runs a command that must succeed, and returns its output.
func (s *shopWaybill) run(t *testing.T, arguments ...string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), s.program, append(arguments, "--home", s.home)...).CombinedOutput()
	if err != nil {
		t.Fatalf("waybill %s: %v: %s", strings.Join(arguments, " "), err, out)
	}
	return string(out)
}

// await waits until something holds.
func (s *shopWaybill) await(t *testing.T, name string, holds func() bool) {
	t.Helper()
	again := time.NewTicker(200 * time.Millisecond)
	defer again.Stop()
	for late := time.After(5 * time.Minute); !holds(); {
		select {
		case <-again.C:
		case <-late:
			t.Fatalf("%s: not so after five minutes\n%s\n%s", name, s.run(t, "deployment", "show", "shop#1"), s.process.LogTail())
		}
	}
}
