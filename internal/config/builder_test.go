package config_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/config"
)

func TestBuilderIsRead(t *testing.T) {
	t.Parallel()
	digest := strings.Repeat("0a", 32)
	c, err := config.Read("/etc/waybill/server.yaml", []byte(`
builder:
  instance: shop-1
  key: builder.key
  provisioner:
    url: https://builds.example.org/
    tokenFile: /run/token
    listen: 0.0.0.0:6009
    tokens: ["`+digest+`"]
    concurrent: 20
    perProject: 2
    grace: 1m
    linger: 1h
    keep: 2d
    largestSnapshot: 512MiB
    docker: {host: "unix:///run/docker.sock", image: "waybill:1", network: builds, memory: 1GiB}
    workers: {listen: 0.0.0.0, advertise: builds.example.org}
    credentials: {github: github.credentials}
    startLimit: 3m
    kubernetes: {kubeconfig: builds.kubeconfig, context: dev, namespace: builds, image: "registry.example.org/waybill:1", imagePullPolicy: Never, serviceAccount: w, accounts: [deployer]}
  tools: {buildkit: "moby/buildkit:rootless", helm: registry:5000/helm, kubectl: kubectl@sha256:00, dotnet: sdk, buildkitAddress: "tcp://buildkit:1234", serviceAccount: deployer}
  watchdog: {interval: 30s, workerAge: 2m, buildAge: 3m}
`))
	if err != nil {
		t.Fatal(err)
	}
	want := config.Builder{
		Instance: "shop-1", Key: "/etc/waybill/builder.key",
		Provisioner: config.Provisioner{URL: "https://builds.example.org", TokenFile: "/run/token", Listen: "0.0.0.0:6009",
			Tokens:     []string{digest},
			Concurrent: 20, PerProject: 2, Grace: time.Minute, Linger: time.Hour, Keep: 48 * time.Hour, Host: "0.0.0.0",
			Docker:    &config.WorkerDocker{Host: "unix:///run/docker.sock", Image: "waybill:1", Network: "builds", Memory: 1 << 30},
			Advertise: "builds.example.org", Largest: 512 << 20,
			Credentials: map[string]string{"github": "/etc/waybill/github.credentials"}, StartLimit: 3 * time.Minute,
			Kubernetes: &config.Kubernetes{Kubeconfig: "/etc/waybill/builds.kubeconfig", Context: "dev", Namespace: "builds",
				Image:      "registry.example.org/waybill:1",
				PullPolicy: "Never", ServiceAccount: "w", Accounts: []string{"deployer"}}},
		Tools: build.Tools{BuildKit: "moby/buildkit:rootless", Helm: "registry:5000/helm", Kubectl: "kubectl@sha256:00", DotNet: "sdk",
			BuildKitAt: "tcp://buildkit:1234", Account: "deployer"},
		Watchdog: config.Watchdog{Interval: 30 * time.Second, WorkerAge: 2 * time.Minute, BuildAge: 3 * time.Minute},
	}
	if diff := cmp.Diff(want, c.Builder); diff != "" {
		t.Error(diff)
	}
}

func TestFaultsOfBuilderAreNamed(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`instance: Shop`: `builder.instance: want at most 40 lower-case letters, digits and inner hyphens, found "Shop"`,
		`provisioner: {url: "builds.example.org"}`:                `builder.provisioner.url: want an address such as http://127.0.0.1:5009, found "builds.example.org"`,
		`provisioner: {listen: "5009"}`:                           `builder.provisioner.listen: want host:port such as 127.0.0.1:5009, found "5009"`,
		`provisioner: {tokens: [secret]}`:                         `builder.provisioner.tokens: want at most 100 digests of 64 hex digits: printf %s TOKEN | sha256sum`,
		`provisioner: {concurrent: 0}`:                            `builder.provisioner.concurrent: want a whole number from 1 to 10000, found 0`,
		`provisioner: {grace: 0s}`:                                `builder.provisioner.grace: want at least 1s, found "0s"`,
		`provisioner: {credentials: {x: ""}}`:                     `builder.provisioner.credentials.x: want the path of a file`,
		`tools: {helm: "r:5/helm:v3"}`:                            `builder.tools.helm: want an image without a tag, which is the version, found "r:5/helm:v3"`,
		`tools: {kubectl: "a b"}`:                                 `builder.tools.kubectl: want the name of an image, found "a b"`,
		`tools: {kubectl: ""}`:                                    `builder.tools.kubectl: want the name of an image, found ""`,
		`tools: {buildkitAddress: "buildkit"}`:                    `builder.tools.buildkitAddress: want an address such as tcp://buildkit:1234 or unix:///run/buildkit/buildkitd.sock, found "buildkit"`,
		`tools: {serviceAccount: A}`:                              `builder.tools.serviceAccount: want the name of a service account, found "A"`,
		`watchdog: {interval: 1s}`:                                `builder.watchdog.interval: want at least 10s, found "1s"`,
		`watchdog: {intervall: 1m}`:                               `unknown key "intervall" in builder.watchdog (did you mean "interval"?)`,
		`provisioner: {workers: {listen: "1.2.3.4:5"}}`:           `builder.provisioner.workers.listen: want an IP address without a port, such as 10.1.2.3, found "1.2.3.4:5"`,
		`provisioner: {workers: {listen: "::"}}`:                  `builder.provisioner.workers.listen: :: is every address of this machine: name one that aggregators reach in builder.provisioner.workers.advertise`,
		`provisioner: {workers: {advertise: "a:1"}}`:              `builder.provisioner.workers.advertise: want a name or an address without a port, such as builds.example.org, found "a:1"`,
		`provisioner: {largestSnapshot: much}`:                    `builder.provisioner.largestSnapshot`,
		`provisioner: {startLimit: 0s}`:                           `builder.provisioner.startLimit: want at least 1s, found "0s"`,
		`provisioner: {kubernetes: {image: "a b"}}`:               `builder.provisioner.kubernetes.image: want the name of an image such as registry.example.org/waybill:1, found "a b"`,
		`provisioner: {kubernetes: {namespace: "B"}}`:             `builder.provisioner.kubernetes.namespace: want a name of Kubernetes, of lower-case letters, digits, hyphens and dots, found "B"`,
		`provisioner: {kubernetes: {imagePullPolicy: x}}`:         `builder.provisioner.kubernetes.imagePullPolicy: want Always, IfNotPresent or Never, found "x"`,
		`provisioner: {kubernetes: {accounts: [waybill-worker]}}`: `builder.provisioner.kubernetes.accounts: want at most 100 names of service accounts, other than that of the workers`,
		`provisioner: {kubernetes: {images: x}}`:                  `unknown key "images" in builder.provisioner.kubernetes (did you mean "image"?)`,
		`provisioner: {docker: {host: "tcp://x:1"}}`:              `builder.provisioner.docker.image: name an image that has waybill and git on its path`,
		`provisioner: {docker: {image: x, host: "/run/x"}}`:       `builder.provisioner.docker.host: want an address such as unix:///var/run/docker.sock, found "/run/x"`,
	} {
		_, err := config.Read("server.yaml", []byte("builder: {"+text+"}"))
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v\nwant %s", text, err, want)
		}
	}
}
