package build

import "cmp"

// Tools configures the programs of the steps' types. An empty field leaves the default.
type Tools struct {
	BuildKit   string // image of BuildKit
	Helm       string // image of Helm without a tag, which is the version
	Kubectl    string // image of kubectl
	DotNet     string // image of the .NET SDK
	BuildKitAt string // address of a BuildKit that runs already, such as tcp://buildkit:1234; "": each step starts its own
	Account    string // service account of these steps in a cluster
}

// withDefaults returns the tools with every field but BuildKitAt set.
func (t Tools) withDefaults() Tools {
	return Tools{
		BuildKit: cmp.Or(t.BuildKit, "moby/buildkit:v0.34.2-rootless"), Helm: cmp.Or(t.Helm, "wharfse/helm"),
		Kubectl: cmp.Or(t.Kubectl, "wharfse/kubectl:v1.23.5"),
		DotNet:  cmp.Or(t.DotNet, "mcr.microsoft.com/dotnet/sdk:10.0"), BuildKitAt: t.BuildKitAt, Account: cmp.Or(t.Account, "wharf-cmd"),
	}
}
