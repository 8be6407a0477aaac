package provisioner

import (
	"errors"

	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/file"
)

// mostCredentials bounds a file of credentials, in bytes.
const mostCredentials = 256 << 10

// credentialFile returns the path of named credentials; "" for no name.
func credentialFile(named map[string]string, name string) (string, error) {
	file, known := named[name]
	if name != "" && !known {
		return "", fault.New(fault.Invalid, "credentials %q not found", name).
			WithHint("name them in builder.provisioner.credentials of the provisioner's server.yaml")
	}
	return file, nil
}

// readCredentials reads named credentials; nil for no name.
func readCredentials(named map[string]string, name string) ([]byte, error) {
	path, err := credentialFile(named, name)
	if path == "" || err != nil {
		return nil, err
	}
	text, err := file.Read(path, mostCredentials)
	switch {
	case errors.Is(err, file.ErrSize):
		return nil, fault.New(fault.Invalid, "the credentials %q have more than %d bytes", name, mostCredentials)
	case err != nil:
		return nil, fault.New(fault.Unavailable, "read the credentials %q: %w", name, err)
	}
	return text, nil
}
