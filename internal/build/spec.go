package build

import "time"

// Spec is what a runner must know of a step, whatever its type.
type Spec struct {
	Step  string   `json:"step"` // stage/step, for people
	Image string   `json:"image"`
	OS    string   `json:"os"`
	Argv  []string `json:"argv"`

	// Secret says that Argv holds passwords, which other users of a computer could read there: a
	// runner passes the commands in another way.
	Secret bool `json:"secret,omitempty"`

	Environ  []string     `json:"environ,omitempty"` // NAME=value, in addition to what every step gets
	Services []Service    `json:"services,omitempty"`
	Limits   Resources    `json:"limits,omitzero"`
	Requests Resources    `json:"requests,omitzero"`
	Mounts   []Mount      `json:"mounts,omitempty"`
	Secrets  []SecretKeys `json:"secretKeys,omitempty"`

	// ServiceAccount is the account of the cluster that the step runs as; Token says that it gets the account's token.
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

// Resources is an amount of what a step may use. Zero leaves it open.
type Resources struct {
	CPU     int64 `json:"cpu,omitempty"`     // thousandths of a core
	Memory  int64 `json:"memory,omitempty"`  // bytes
	Storage int64 `json:"storage,omitempty"` // ephemeral, bytes
}

// Mount is a folder in the step's file system whose files are those of an object in the cluster.
type Mount struct {
	Path   string `json:"path"` // absolute
	Kind   string `json:"kind"` // MountConfigMap | MountSecret
	Object string `json:"object"`
	Key    string `json:"key,omitempty"`  // only this one; "": all keys
	Name   string `json:"name,omitempty"` // the file that has Key
}

// Kinds of mounts.
const (
	MountConfigMap = "configmap"
	MountSecret    = "secret"
)

// SecretKeys is environment variables from a Secret of the cluster. Their values are masked.
type SecretKeys struct {
	Object string `json:"object"`
	Key    string `json:"key,omitempty"`  // "": every key is a variable of its name
	Name   string `json:"name,omitempty"` // the variable that has Key
}
