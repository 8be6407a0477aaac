package build

import (
	"encoding/csv"
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"

	d "github.com/waybill-dev/waybill/internal/document"
	"github.com/waybill-dev/waybill/internal/fault"
)

// Bounds and grammar of the names of images.
const maxDestination = 255 // bytes without the tag

var (
	repository = regexp.MustCompile(`^[a-z0-9]([-a-z0-9.]*[a-z0-9])?(:[0-9]{1,5})?(/[a-z0-9]+(([._]|__|-+)[a-z0-9]+)*)+$`)
	imageTag   = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}$`)
	buildArg   = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_.-]*$`)
)

// certificatesMount is the folder in which a builder finds the certificates that it trusts.
const (
	certificatesMount = "/mnt/ca-certificates"
	credentialsMount  = "/mnt/docker"
)

// dockerTable returns the fields of docker.
func dockerTable() []d.Key {
	return []d.Key{
		{Name: "file", Shape: d.Text, Required: true, Help: "The Dockerfile."},
		{Name: "tag", Shape: d.Text, Required: true, Help: "The image's tags, with commas between them."},
		{Name: "context", Shape: d.Text, Default: "the root", Help: "The folder whose files the Dockerfile sees."},
		{Name: "destination", Shape: d.Text, Default: "REGISTRY/GROUP/REPO_NAME/NAME",
			Help: "The image's name with its registry, without a tag. By default /NAME is left out if it is REPO_NAME too. " +
				"Upper-case letters become lower-case, with a warning."},
		{Name: "name", Shape: d.Text, Default: "the step's name", Help: "NAME of destination."},
		{Name: "group", Shape: d.Text, Default: "${REPO_GROUP}", Help: "GROUP of destination."},
		{Name: "registry", Shape: d.Text, Default: "${REG_URL}", Help: "REGISTRY of destination."},
		{Name: "secret", Shape: d.Text, Default: "${REG_SECRET}, else gitlab-registry",
			Help: "The Secret whose .dockerconfigjson has the registry's credentials; empty: none. On a laptop the user's own are used."},
		{Name: "append-cert", Shape: d.Flag, Default: "true if group begins with default and destination is absent",
			Help: "Trust the ConfigMap ca-certificates-config for the registry, and offer it as the build secret " +
				"ca-certificates. The image has it only if the Dockerfile puts it there."},
		{Name: "push", Shape: d.Flag, Default: "true", Help: "Push the image; false only builds it."},
		{Name: "args", Shape: d.Texts, Help: "Build arguments, as NAME=value."},
		{Name: "secretName", Shape: d.Text, Help: "The project's Secret that has the values of secretArgs."},
		{Name: "secretArgs", Shape: d.Texts, Help: "Build arguments that are secrets, as NAME=key with a key of secretName."},
	}
}

// dockerSchema completes the schema of docker by rules that its table cannot express.
func dockerSchema(schema map[string]any) {
	schema["anyOf"] = []any{
		map[string]any{"required": []string{"secretName", "secretArgs"}},
		map[string]any{"properties": map[string]any{"secretName": false, "secretArgs": false}},
	}
}

// docker returns BuildKit's command for an image.
func (f fields) docker() Spec {
	image := &ImageBuild{File: f.path("file", ""), Context: f.path("context", "."),
		Push: f.flag("push", true) && !f.noPush, Args: f.buildArgs(), Insecure: f.insecure()}
	tags := f.tags()
	destination := f.destination()
	for _, tag := range tags {
		image.Destinations = append(image.Destinations, destination+":"+tag)
	}
	image.Certificates = f.flag("append-cert", f.node.Get("destination") == nil && strings.HasPrefix(strings.ToLower(f.group()), "default"))
	image.Address = f.tools.BuildKitAt
	spec := Spec{Image: f.tools.BuildKit, OS: "linux", Build: image, ServiceAccount: f.tools.Account, Tools: []string{BuildKitClient},
		// a builder without root cannot make the processes of a build a sandbox of their own
		Environ: []string{"BUILDKITD_FLAGS=--oci-worker-no-process-sandbox"},
		Summary: strings.Join(append([]string{destination + ":" + first(tags)}, prefixed(":", tags[min(1, len(tags)):])...), ", ")}
	image.SecretArgs, spec.Secrets = f.secretArgs()
	fallback := f.variable("REG_SECRET")
	if fallback == "" {
		fallback = "gitlab-registry"
	}
	if secret := f.text("secret", fallback); secret != "" {
		f.matches("secret", "name-invalid", objectName, objectWords)
		spec.mount(Mount{Path: credentialsMount, Kind: MountSecret, Object: secret, Key: ".dockerconfigjson", Name: "config.json",
			Variable: "DOCKER_CONFIG"}, credentialsMount)
	}
	if image.Certificates {
		spec.mount(Mount{Path: certificatesMount, Kind: MountConfigMap, Object: CertificatesObject, Variable: "SSL_CERT_DIR"},
			certificatesMount)
	}
	if image.Address != "" {
		spec.Environ = append(spec.Environ, BuildKitHost+"="+image.Address)
	}
	spec.Argv = image.argv()
	return spec
}

func first(list []string) string {
	if len(list) == 0 {
		return ""
	}
	return list[0]
}

func prefixed(prefix string, list []string) []string {
	out := make([]string, len(list))
	for i, text := range list {
		out[i] = prefix + text
	}
	return out
}

// tags reads the tags of an image.
func (f fields) tags() (tags []string) {
	n := f.settled("tag")
	if n == nil {
		return nil
	}
	for tag := range strings.SplitSeq(n.Text, ",") {
		if tag = strings.TrimSpace(tag); tag == "" || slices.Contains(tags, tag) {
			continue
		}
		if !imageTag.MatchString(tag) {
			f.refuse("tag", "tag-invalid", "%q is not a valid tag; want at most 128 letters, digits, dots, dashes and underscores", tag)
		}
		tags = append(tags, tag)
	}
	if len(tags) == 0 && strings.TrimSpace(n.Text) != "" {
		f.refuse("tag", "tag-none", "%q has no tag", n.Text)
	}
	return tags
}

// group returns the group of the image's name without a report that it is missing.
func (f fields) group() string {
	return f.text("group", f.variable("REPO_GROUP"))
}

// destination returns the image's name without a tag.
func (f fields) destination() string {
	written := f.text("destination", "")
	place, at := "destination", f.at
	if given := f.node.Get("destination"); given != nil {
		at = given.At
	}
	if written == "" {
		place = ""
		parts := map[string]string{}
		for field, variable := range map[string]string{"registry": "REG_URL", "group": "REPO_GROUP"} {
			if parts[field] = f.text(field, ""); parts[field] == "" {
				parts[field] = f.required(variable, field)
			}
		}
		project := f.required("REPO_NAME", "destination")
		written = strings.Trim(parts["registry"], "/") + "/" + strings.Trim(parts["group"], "/") + "/" + project
		if name := f.text("name", f.step.Key); name != project {
			written += "/" + name
		}
		if slices.Contains(slices.Collect(maps.Values(parts)), "") || project == "" {
			return written
		}
	}
	if strings.Contains(written, "${") || f.replaced == nil && place == "" {
		return written
	}
	lower := strings.ToLower(written)
	if lower != written {
		f.warn(at, place, "lower-case", "the image's name becomes "+lower+", since registries refuse upper-case letters")
	}
	if !repository.MatchString(lower) || len(lower) > maxDestination {
		scope := f.scope
		if place != "" {
			scope = f.Join(scope, place)
		}
		f.Problems.Add(fault.Problem{Position: at, Code: "destination-invalid", Scope: scope,
			Text: fmt.Sprintf(
				"the image's name %q is not valid; want a registry and a path of lower-case letters, digits, dots, dashes and underscores", lower)})
	}
	return lower
}

// buildArgs reads the build arguments.
func (f fields) buildArgs() []string {
	for scope, item := range f.items("args") {
		if name, _, ok := strings.Cut(item.Text, "="); !ok || !buildArg.MatchString(name) {
			f.Add(item, "argument-invalid", scope, "%q is not a build argument; want NAME=value", item.Text)
		}
	}
	return f.node.Strs("args")
}

// secretArgs reads the build arguments that are secrets.
func (f fields) secretArgs() (arguments []SecretArg, keys []SecretKeys) {
	name, list := f.node.Get("secretName"), f.node.Get("secretArgs")
	switch {
	case name == nil && list == nil:
		return nil, nil
	case name == nil:
		f.refuse("secretArgs", "secret-args", "secretArgs has no meaning without secretName")
		return nil, nil
	case list == nil:
		f.refuse("secretName", "secret-args", "secretName has no meaning without secretArgs")
		return nil, nil
	}
	project := f.project("secretName")
	for _, item := range list.Items {
		argument, key, ok := strings.Cut(item.Text, "=")
		if (!ok || !secretName.MatchString(argument) || key == "") && !strings.Contains(item.Text, "${") {
			f.refuse("secretArgs", "secret-args", "%q is not a build argument that is a secret; want NAME=key", item.Text)
		}
		secret := SecretArg{Name: argument, Variable: "WAYBILL_ARG_" + argument}
		arguments = append(arguments, secret)
		keys = append(keys, SecretKeys{Object: project.Object, Key: key, Name: secret.Variable, Local: project.Local})
	}
	return arguments, keys
}

// argv returns the command that makes the image. Secrets are in the environment of the command's shell, and certificates are put into one
// file, as BuildKit wants a build secret to be.
func (b *ImageBuild) argv() []string { return b.argvWith(b.output()) }

// ArgvTo returns the command that makes the image as a file, an archive as docker load reads it.
func (b *ImageBuild) ArgvTo(file string) []string {
	return b.argvWith(csvOf("type=docker", "name="+strings.Join(b.Destinations, ","), "dest="+file))
}

func (b *ImageBuild) argvWith(output string) []string {
	program := BuildKitCommand
	if b.Address != "" {
		program = BuildKitClient
	}
	argv := []string{program, "build", "--frontend", "dockerfile.v0",
		"--local", "context=" + b.Context, "--local", "dockerfile=" + path.Dir(b.File), "--opt", "filename=" + path.Base(b.File)}
	for _, argument := range b.Args {
		argv = append(argv, "--opt", "build-arg:"+argument)
	}
	argv = append(argv, "--output", output)
	if len(b.SecretArgs) == 0 && !b.Certificates {
		return argv
	}
	script, options := "set -e\n", ""
	if b.Certificates {
		script += "certificates=$(mktemp)\ncat \"$SSL_CERT_DIR\"/* > \"$certificates\"\n"
		options += ` --secret "id=ca-certificates,src=$certificates"`
	}
	for _, argument := range b.SecretArgs { // whose names have been checked
		options += ` --opt "build-arg:` + argument.Name + "=$" + argument.Variable + `"`
	}
	return append([]string{"/bin/sh", "-c", script + `exec "$0" "$@"` + options}, argv...)
}

// output returns where BuildKit puts the image, in its form: fields as in CSV.
func (b *ImageBuild) output() string {
	output := []string{"type=image", "name=" + strings.Join(b.Destinations, ","),
		"push=" + map[bool]string{true: "true", false: "false"}[b.Push]}
	if b.Insecure {
		output = append(output, "registry.insecure=true")
	}
	return csvOf(output...)
}

// csvOf returns fields as one line.
func csvOf(fields ...string) string {
	var out strings.Builder
	w := csv.NewWriter(&out)
	_ = w.Write(fields) // to memory
	w.Flush()
	return strings.TrimSuffix(out.String(), "\n")
}
