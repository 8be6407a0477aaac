package assembly

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/waybill-dev/waybill/internal/config"
	"github.com/waybill-dev/waybill/internal/promotion"
)

// leafKubeconfig leads to a cluster; nothing connects to it before a stage promotes there.
const leafKubeconfig = `{apiVersion: v1, kind: Config, current-context: leaf,
	contexts: [{name: leaf, context: {cluster: leaf, user: leaf}}],
	clusters: [{name: leaf, cluster: {server: "https://leaf.example.com"}}], users: [{name: leaf, user: {token: t}}]}`

// promoterIn opens a session whose server.yaml has a cluster for stages, and no management cluster.
func promoterIn(t *testing.T) (s *Session, folder string) {
	t.Helper()
	dir := t.TempDir()
	p := placeIn(dir, nil)
	kubeconfig := filepath.Join(dir, "leaf.yaml")
	write(t, kubeconfig, strings.ReplaceAll(leafKubeconfig, "\t", " "))
	settings(t, p, fmt.Sprintf("promoter: {clusters: {leaf: {kubeconfig: %q}}}", kubeconfig))
	s, err := p.Open(t.Context(), dir, Serve)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s, dir
}

// Without a management cluster a conductor serves all that stages with an environment need.
func TestStagesNeedNoManagementCluster(t *testing.T) {
	t.Parallel()
	s, _ := promoterIn(t)
	if _, err := s.Roles(t.Context(), RoleOptions{}, RolePromoter, RoleConductor); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{promotion.HandlerEnvironment, promotion.HandlerPullRequest,
		promotion.HandlerNotification, promotion.HandlerExpression} {
		if s.handlers.Load().table.Handlers[name] == nil {
			t.Errorf("no handler %s", name)
		}
	}
}

// A reload is refused if the role promoter could not work with it; else its clusters and its handlers are in force.
func TestAReloadOfThePromoter(t *testing.T) {
	t.Parallel()
	s, dir := promoterIn(t)
	if _, err := s.Roles(t.Context(), RoleOptions{Log: slog.New(slog.DiscardHandler)}, RolePromoter, RoleConductor); err != nil {
		t.Fatal(err)
	}
	next := *s.Live.Now()
	with := func(kubeconfig string) config.Promoter {
		return config.Promoter{Clusters: map[string]config.Cluster{"leaf": {Kubeconfig: filepath.Join(dir, kubeconfig)},
			"more": {Kubeconfig: filepath.Join(dir, "leaf.yaml")}}}
	}
	if err := s.checkPromoter(with("missing.yaml")); err == nil || !strings.Contains(err.Error(), "promoter.clusters.leaf: ") {
		t.Errorf("a kubeconfig that is missing: %v", err)
	}
	good := with("leaf.yaml")
	if err := s.checkPromoter(good); err != nil {
		t.Fatal(err)
	}
	if clusters, err := s.stageClusters(good); err != nil || clusters["more"] == nil {
		t.Errorf("clusters %v, %v", clusters, err)
	}
	before := s.handlers.Load().table.Handlers[promotion.HandlerPullRequest]
	next.Promoter = &good
	commit, err := s.rebuildHandlers(t.Context(), &next)
	if err != nil {
		t.Fatal(err)
	}
	commit()
	if s.handlers.Load().table.Handlers[promotion.HandlerPullRequest] == before {
		t.Error("the handler of pull requests has the former configuration")
	}
	cfg := s.promotion()
	ended := make(chan error, 1)
	go func() {
		ended <- s.whilePromoter(t.Context(), cfg, s.credentials(cfg), func(own context.Context) error {
			<-own.Done()
			return nil
		})
	}()
	s.Live.Swap(next)
	if err := <-ended; err != nil || t.Context().Err() != nil {
		t.Errorf("the former promoter: %v", err)
	}
	if clusters, _, ok := s.stageOffers(s.Live.Now().Promoter); !ok || !slices.Contains(clusters, "more") {
		t.Errorf("stages may name %v", clusters)
	}
}

// The promoter is made again once a kubeconfig has other credentials, and not while its file cannot be read.
func TestARotatedKubeconfigIsNoticed(t *testing.T) {
	t.Parallel()
	s, dir := promoterIn(t)
	cfg := s.promotion()
	known := s.credentials(cfg)
	if known == "" || s.credentials(cfg) != known {
		t.Fatalf("credentials %q", known)
	}
	write(t, filepath.Join(dir, "leaf.yaml"), "")
	if got := s.credentials(cfg); got != "" {
		t.Errorf("of an empty file: %q", got)
	}
	write(t, filepath.Join(dir, "leaf.yaml"), strings.ReplaceAll(strings.Replace(leafKubeconfig, "token: t", "token: u", 1), "\t", " "))
	err := s.whilePromoter(t.Context(), cfg, known, func(own context.Context) error {
		<-own.Done()
		return nil
	})
	if err != nil || t.Context().Err() != nil {
		t.Errorf("the promoter with the former credentials: %v", err)
	}
}

// The API answers by the configuration in force: with the management cluster that a changed server.yaml names, and by its keys.
func TestTheAPIFollowsAChangedPromoter(t *testing.T) {
	t.Parallel()
	s, dir := promoterIn(t)
	proofs, proposals := s.proofs(), s.proposals()
	if got := proofs(); got != nil {
		t.Errorf("proofs without a management cluster: %v", got)
	}
	if _, err := proposals(); err == nil {
		t.Error("repositories are read without a management cluster")
	}
	var ways []any
	for _, plain := range []bool{false, true} {
		next := *s.Live.Now()
		next.Promoter = &config.Promoter{Kubeconfig: filepath.Join(dir, "leaf.yaml"), PlainHTTP: plain}
		s.Live.Swap(next)
		if proofs() == nil {
			t.Errorf("no proofs with a management cluster, plain HTTP %t", plain)
		}
		way, err := proposals()
		if again, _ := proposals(); err != nil || again != way {
			t.Fatalf("the way to repositories %v, then %v, %v", way, again, err)
		}
		ways = append(ways, way)
	}
	if ways[0] == ways[1] {
		t.Error("the way to repositories has the former keys")
	}
}
