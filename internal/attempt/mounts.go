package attempt

import (
	"github.com/waybill-dev/waybill/internal/build"
)

// CheckMounts reports the mounts from a cluster that a runner without one does not have: access to clusters, by name,
// and certificates. Credentials for registries are the user's own.
func CheckMounts(spec build.Spec, hasCluster func(name string) bool, hasCertificates bool,
	add func(code, format string, arguments ...any)) {
	for _, m := range spec.Mounts {
		switch {
		case m.Variable == build.KubeconfigVariable:
			if !hasCluster(m.Object) {
				add("cluster-missing",
					"the step works in the cluster %s, and the current context is never used; name one: --cluster "+
						"%s=KUBECONFIG#CONTEXT", m.Object, m.Object)
			}
		case m.Object == build.CertificatesObject && !hasCertificates:
			add("certificates-missing", "the step wants the certificates of the cluster; name a folder that has them: --certificates DIR")
		}
	}
}
