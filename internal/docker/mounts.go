package docker

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/distribution/reference"
	"github.com/moby/moby/api/types/registry"
	"github.com/moby/moby/client"

	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/file"
)

// Bounds of the certificates that a step gets.
const (
	mostCertificates = 1000
	maxCertificates  = 16 << 20 // bytes in all
)

// mounted is the files that are in a container instead of objects of a cluster.
type mounted struct {
	files   map[string][]byte // by full path
	without []string          // variables of spec.Environ whose files are absent
}

// mount collects the files of the step's mounts.
func (s *step) mount(ctx context.Context) error {
	s.mounted = mounted{files: map[string][]byte{}}
	for _, m := range s.run.Step.Spec.Mounts {
		var err error
		switch {
		case m.Variable == build.KubeconfigVariable:
			s.mounted.files[path.Join(m.Path, "config")] = s.Clusters[m.Object]
		case m.Object == build.CertificatesObject:
			err = s.mounted.add(m.Path, s.Certificates)
		default:
			err = s.mounted.login(ctx, m, s.run.Step.Spec)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// add adds the files of a folder, those that links lead to among them.
func (m *mounted) add(at, folder string) error {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return fmt.Errorf("read the certificates: %w", err)
	}
	size := int64(0)
	for _, entry := range entries {
		info, err := os.Stat(filepath.Join(folder, entry.Name()))
		if err != nil || !info.Mode().IsRegular() {
			continue // as a broken link
		}
		if size += info.Size(); size > maxCertificates || len(m.files) == mostCertificates {
			return &build.StepError{Text: fmt.Sprintf("folder %s has more than %d certificates, or more than %d bytes", folder,
				mostCertificates, maxCertificates)}
		}
		if m.files[path.Join(at, entry.Name())], err = file.Read(filepath.Join(folder, entry.Name()), maxCertificates); err != nil {
			return fmt.Errorf("read the certificates: %w", err)
		}
	}
	return nil
}

// login adds the user's own credentials for registries as a file of the form that docker login writes, which Helm reads too. Without any
// the variable of the mount is left out.
func (m *mounted) login(ctx context.Context, mount build.Mount, spec build.Spec) error {
	config, err := readClientConfig()
	if err != nil {
		return fmt.Errorf("read the configuration of docker: %w", err)
	}
	text, err := config.plain(ctx, registriesOf(spec))
	switch {
	case err != nil:
		return err
	case text == nil:
		m.without = append(m.without, mount.Variable)
	default:
		m.files[path.Join(mount.Path, mount.Name)] = text
	}
	return nil
}

// registriesOf returns the registries that a step is known to write to.
func registriesOf(spec build.Spec) (domains []string) {
	if spec.Build != nil {
		for _, destination := range spec.Build.Destinations {
			if named, err := reference.ParseNormalizedNamed(destination); err == nil {
				domains = append(domains, reference.Domain(named))
			}
		}
	}
	for _, argument := range spec.Argv {
		if rest, ok := strings.CutPrefix(argument, "oci://"); ok {
			domain, _, _ := strings.Cut(rest, "/")
			domains = append(domains, domain)
		}
	}
	return domains
}

// plain returns config.json with the credentials of the registries that the configuration names and of further ones, which helpers may
// keep; nil without any.
func (c clientConfig) plain(ctx context.Context, domains []string) ([]byte, error) {
	keys := slices.Concat(slices.Collect(maps.Keys(c.Auths)), slices.Collect(maps.Keys(c.CredHelpers)), domains)
	slices.Sort(keys)
	auths := map[string]map[string]string{}
	for _, key := range slices.Compact(keys) {
		if key == dockerHub {
			key = dockerHubKey
		}
		auth, err := c.find(ctx, key)
		if err != nil {
			return nil, err
		}
		if auth == (registry.AuthConfig{}) {
			continue
		}
		auths[key] = map[string]string{}
		if auth.IdentityToken != "" {
			auths[key]["identitytoken"] = auth.IdentityToken
		}
		if auth.Username != "" {
			auths[key]["auth"] = base64.StdEncoding.EncodeToString([]byte(auth.Username + ":" + auth.Password))
		}
	}
	if len(auths) == 0 {
		return nil, nil
	}
	return json.Marshal(map[string]any{"auths": auths})
}

// environ returns the variables of the step's own, without those whose files are absent.
func (s *step) environ() []string {
	return slices.DeleteFunc(slices.Clone(s.run.Step.Spec.Environ), func(pair string) bool {
		name, _, _ := strings.Cut(pair, "=")
		return slices.Contains(s.mounted.without, name)
	})
}

// uploadMounts puts the files of the step's mounts into the container, which has them as long as it exists. docker
// inspect does not show them.
func (s *step) uploadMounts(ctx context.Context) error {
	if len(s.mounted.files) == 0 && !s.loads() {
		return nil
	}
	var files bytes.Buffer
	archive := tar.NewWriter(&files)
	if s.loads() { // as every system has it
		if err := archive.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: "tmp/", Mode: 0o1777, Format: tar.FormatPAX}); err != nil {
			return err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.mounted.files)) {
		content := s.mounted.files[name]
		header := &tar.Header{Typeflag: tar.TypeReg, Name: strings.TrimPrefix(name, "/"), Size: int64(len(content)),
			Mode: 0o444, Format: tar.FormatPAX}
		if err := archive.WriteHeader(header); err != nil {
			return err
		}
		if _, err := archive.Write(content); err != nil {
			return err
		}
	}
	if err := archive.Close(); err != nil {
		return err
	}
	_, err := persist(ctx, func(ctx context.Context) (client.CopyToContainerResult, error) {
		return s.engine.api.CopyToContainer(ctx, s.id,
			client.CopyToContainerOptions{DestinationPath: "/", Content: io.NopCloser(bytes.NewReader(files.Bytes()))})
	})
	if err != nil {
		return fmt.Errorf("put the files of mounts into %s: %w", s.run.Step.Path(), err)
	}
	return nil
}
