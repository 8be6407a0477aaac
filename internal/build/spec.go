package build

import "time"

// Spec holds the facts about a step that a runner needs, whatever its type.
type Spec struct {
	Step  string   `json:"step"` // stage/step, for people
	Image string   `json:"image"`
	OS    string   `json:"os"`
	Argv  []string `json:"argv"`

	// Secret reports that Argv holds passwords, which other users of a computer could read there: a runner passes the
	// commands in another way.
	Secret bool `json:"secret,omitempty"`

	// Tools is the programs that Argv starts beside its first; they are in Image.
	Tools []string `json:"tools,omitempty"`

	// Summary describes the step in a few words, for people; "": it runs Image.
	Summary string `json:"summary,omitempty"`

	// Build is the image that a step of the type docker makes; nil for other types. Image is then a builder that runs without root, which
	// seccomp and AppArmor must not confine.
	Build *ImageBuild `json:"build,omitempty"`

	// Files is the files and folders of the workspace in whose texts variables are replaced before the step begins. The worker does it: a
	// runner gets the changed copies among Run.Needed.
	Files []string `json:"files,omitempty"`

	Environ  []string     `json:"environ,omitempty"` // NAME=value, in addition to what every step gets
	Services []Service    `json:"services,omitempty"`
	Limits   Resources    `json:"limits,omitzero"`
	Requests Resources    `json:"requests,omitzero"`
	Mounts   []Mount      `json:"mounts,omitempty"`
	Secrets  []SecretKeys `json:"secretKeys,omitempty"`

	// ServiceAccount is the account of the cluster that the step runs as; "": the namespace's default one. Token
	// reports that it gets the account's token.
	ServiceAccount string `json:"serviceAccount,omitempty"`
	Token          bool   `json:"token,omitempty"`
}

// Service is a program that runs beside a step, which reaches it by its name.
type Service struct {
	Name    string        `json:"name"`
	Image   string        `json:"image"`
	Argv    []string      `json:"argv,omitempty"`    // nil: the image's own
	Environ []string      `json:"environ,omitempty"` // NAME=value
	Ports   []int         `json:"ports,omitempty"`
	Ready   time.Duration `json:"ready,omitempty"` // how long the step waits for all ports; 0: it does not
}

// Resources is an amount of resources for a step. Zero leaves it open.
type Resources struct {
	CPU     int64 `json:"cpu,omitempty"`     // thousandths of a core
	Memory  int64 `json:"memory,omitempty"`  // bytes
	Storage int64 `json:"storage,omitempty"` // ephemeral, bytes
}

// ImageBuild is the image that a step makes. Its Argv is the same for BuildKit's own command.
type ImageBuild struct {
	File    string `json:"file"`    // the Dockerfile, slash-separated path in the workspace
	Context string `json:"context"` // folder, slash-separated path in the workspace

	// Destinations is the image's names, each as registry/repository:tag.
	Destinations []string `json:"destinations"`
	Push         bool     `json:"push,omitempty"` // false: it stays where it was built

	Args       []string    `json:"args,omitempty"`       // build arguments, NAME=value
	SecretArgs []SecretArg `json:"secretArgs,omitempty"` // build arguments that are secrets

	// Address is that of a BuildKit that runs already and makes the image; "": the step starts its own.
	Address string `json:"address,omitempty"`

	Insecure     bool `json:"insecure,omitempty"`     // the registry's certificate is not verified
	Certificates bool `json:"certificates,omitempty"` // CertificatesObject is trusted, and is the build secret ca-certificates
}

// SecretArg is a build argument whose value is in the environment, for it must not be an argument of a process.
type SecretArg struct {
	Name     string `json:"name"`
	Variable string `json:"variable"` // the environment variable that has its value
}

// Mount is a folder in the step's file system whose files are those of an object in the cluster. A runner without a cluster may have such
// files elsewhere, or not.
type Mount struct {
	Path   string `json:"path"` // absolute
	Kind   string `json:"kind"` // MountConfigMap | MountSecret
	Object string `json:"object"`
	Key    string `json:"key,omitempty"`  // only this one; "": all keys
	Name   string `json:"name,omitempty"` // the file that has Key

	// Variable is the environment variable of Spec.Environ that has the path of the mount, or of a file in it. A runner that has the
	// files elsewhere sets it to their place, and one that does not have them leaves it out.
	Variable string `json:"variable,omitempty"`
}

// Kinds of mounts.
const (
	MountConfigMap = "configmap"
	MountSecret    = "secret"
)

// CertificatesObject is the ConfigMap that has certificates of authorities that steps trust.
const CertificatesObject = "ca-certificates-config"

// KubeconfigVariable is the variable of the mount that has a file config for access to a cluster.
const KubeconfigVariable = "KUBECONFIG"

// BuildKitCommand runs a builder of images for one build. Where a builder runs already, its client BuildKitClient takes the same
// arguments.
const (
	BuildKitCommand = "buildctl-daemonless.sh"
	BuildKitClient  = "buildctl"
)

// BuildKitHost is the environment variable with the address of a BuildKit that runs already.
const BuildKitHost = "BUILDKIT_HOST"

// SecretKeys is environment variables from a Secret of the cluster. Their values are masked.
type SecretKeys struct {
	Object string `json:"object"`
	Key    string `json:"key,omitempty"`  // "": every key is a variable of its name
	Name   string `json:"name,omitempty"` // the variable that has Key
	Local  string `json:"local"`          // without a cluster the keys are in LOCAL.env of the folder of secrets
}
