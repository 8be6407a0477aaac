package install

import (
	"context"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/types"

	"github.com/waybill-dev/waybill/internal/cli/cmdline"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/kube"
)

// installFlags are the flags of `waybill pipeline install`.
type installFlags struct {
	Options
	print, force        bool
	oldService          string
	kubeconfig, context string
}

// defaultImage is the repository of the images of releases.
const defaultImage = "ghcr.io/waybill-dev/waybill"

// Command returns `waybill pipeline install`.
func Command(a *cmdline.App) *cobra.Command {
	var flags installFlags
	c := &cobra.Command{
		Use:   "install",
		Short: "Install Waybill in a cluster, to promote revisions through Kubernetes pipelines",
		Long: `Applies to the management cluster: the definitions of Pipeline and GitopsCluster, an account with
the rights that promoting needs, and one Deployment of waybill serve api conductor promoter with its
log in SQLite on a volume, or in PostgreSQL with --ledger. With --print it prints the manifests
instead, and asks no cluster. Repeating it upgrades.

With --frozen an empty log begins with a freeze of all pipelines, so Waybill observes and promotes
nothing until waybill pipeline thaw --all: this way it runs beside the original pipeline controller.
--old-service names that controller's Service, so that its hooks reach Waybill.`,
		Example: cmdline.Examples("waybill pipeline install --print | kubectl apply -f -", "waybill pipeline install --frozen",
			"waybill pipeline install --ledger postgres://waybill@db/waybill --image example.org/waybill:1"),
		Args: cmdline.Arguments(0, 0),
		RunE: func(c *cobra.Command, _ []string) error { return runInstall(c.Context(), a, flags) },
	}
	f := c.Flags()
	f.BoolVar(&flags.print, "print", false, "print the manifests and apply nothing")
	f.BoolVar(&flags.Frozen, "frozen", false, "an empty log begins with a freeze of all pipelines")
	f.StringVarP(&flags.Namespace, "namespace", "n", "waybill", "namespace of the Deployment; it is created")
	f.StringVar(&flags.Image, "image", "", "image with this program and git (default: "+defaultImage+" at this version)")
	f.StringVar(&flags.Ledger, "ledger", "",
		"URL of the ledger, such as postgres://waybill@db/waybill (default: SQLite on the volume)")
	f.StringVar(&flags.URL, "url", "", "address at which people reach it, such as https://waybill.example.org, for links")
	f.StringVar(&flags.oldService, "old-service", "",
		"NAMESPACE/NAME of the original controller's Service, which then leads to Waybill")
	f.BoolVar(&flags.force, "force", false, "overwrite fields that others have set")
	f.StringVar(&flags.kubeconfig, "kubeconfig", "", "file that names the cluster (default: as kubectl finds it)")
	f.StringVar(&flags.context, "context", "", "context of the kubeconfig (default: its current one)")
	return c
}

// runInstall prints or applies the manifests.
func runInstall(ctx context.Context, a *cmdline.App, flags installFlags) error {
	if flags.Image == "" {
		flags.Image = defaultImage + ":" + imageTag(a.Version)
	}
	if flags.oldService != "" {
		namespace, name, found := strings.Cut(flags.oldService, "/")
		if !found {
			return fault.New(fault.Invalid, "--old-service: want NAMESPACE/NAME, found %q", flags.oldService)
		}
		flags.OldService = &types.NamespacedName{Namespace: namespace, Name: name}
	}
	manifests, err := Manifests(flags.Options)
	if err != nil {
		return err
	}
	if flags.print {
		_, err := a.Out.Write(manifests)
		return err
	}
	objects, err := Objects(manifests)
	if err != nil {
		return err
	}
	cluster, err := kube.Open(kube.Config{Kubeconfig: flags.kubeconfig, Context: flags.context, Search: true})
	if err != nil {
		return err
	}
	applier := Applier{To: cluster, Force: flags.force, Done: func(name string) { a.Printer().Note("applied %s", name) }}
	if err := applier.Apply(ctx, objects); err != nil {
		return err
	}
	return a.Printer().Lines("Waybill is installed in namespace " + flags.Namespace + " of " + cluster.Host())
}

// imageTag returns the tag of the image of a version. A build without one has no image of its own.
func imageTag(version string) string {
	if !strings.HasPrefix(version, "v") || strings.ContainsAny(version, "+ ") {
		return "latest"
	}
	return version
}
