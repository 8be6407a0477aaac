package build

import d "github.com/waybill-dev/waybill/internal/document"

// Where the token of the registry of NuGet packages is.
const (
	nugetSecret   = "wharf-nuget-api-token" //nolint:gosec // the name of a Secret
	nugetVariable = "WAYBILL_NUGET_TOKEN"
)

// nugetTable returns the fields of nuget-package.
func nugetTable() []d.Key {
	return []d.Key{
		{Name: "version", Shape: d.Text, Required: true, Help: "The version of the packages."},
		{Name: "project-path", Shape: d.Text, Required: true, Help: "The project or solution, or its folder."},
		{Name: "repo", Shape: d.Text, Required: true, Help: "The URL of the registry."},
		{Name: "skip-duplicate", Shape: d.Flag, Default: "false", Help: "A version that the registry has already is passed over."},
		{Name: "certificatesMountPath", Shape: d.Text, Help: "Where the ConfigMap ca-certificates-config is mounted; dotnet trusts it too."},
	}
}

// nugetScript packs a project and pushes each package. Its arguments are the version, the project, the registry, and whether a duplicate
// is passed over. It ends with 1 if packing failed, 2 at a duplicate, 3 if pushing failed.
const nugetScript = `version=$1 project=$2 registry=$3 skip=$4
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
if [ -n "${WAYBILL_CERTIFICATES:-}" ]; then
	mkdir "$work/trusted" || exit 1
	cp -L /etc/ssl/certs/* "$work/trusted" 2>/dev/null
	cp -L "$WAYBILL_CERTIFICATES"/* "$work/trusted" || exit 1
	export SSL_CERT_DIR="$work/trusted"
fi
dotnet pack "$project" --configuration Release "-p:Version=$version" --output "$work/packages" || exit 1
for package in "$work/packages"/*.nupkg; do
	if [ ! -e "$package" ]; then echo "dotnet pack has made no package" >&2; exit 1; fi
	said=$(dotnet nuget push "$package" --source "$registry" --api-key "$` + nugetVariable + `" 2>&1)
	status=$?
	printf '%s\n' "$said"
	if [ "$status" = 0 ]; then continue; fi
	case $said in
	*409*Conflict* | *Conflict*409* | *"already exists"* | *500*[Oo]verwrit* | *[Oo]verwrit*500*)
		if [ "$skip" = true ]; then echo "${package##*/} is there already"; continue; fi
		exit 2 ;;
	esac
	exit 3
done`

// nugetPackage returns the commands that pack a project and push the packages.
func (f fields) nugetPackage() Spec {
	f.matches("version", "version-invalid", version, "a version")
	f.matches("repo", "url-invalid", location, "the URL of a registry")
	project, skip := f.path("project-path", ""), "false"
	if f.flag("skip-duplicate", false) {
		skip = "true"
	}
	spec := Spec{Image: f.tools.DotNet, OS: "linux", ServiceAccount: f.tools.Account, Tools: []string{"dotnet"},
		Argv:    []string{"/bin/sh", "-c", nugetScript, "nuget-package", f.text("version", ""), project, f.text("repo", ""), skip},
		Secrets: []SecretKeys{{Object: nugetSecret, Key: "token", Name: nugetVariable, Local: nugetSecret}},
		Summary: project + " " + f.text("version", "") + " to " + f.text("repo", "")}
	spec.Mounts, spec.Environ = f.certificates("certificatesMountPath")
	return spec
}
