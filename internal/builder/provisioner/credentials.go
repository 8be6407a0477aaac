package provisioner

import (
	"io"
	"os"

	"github.com/waybill-dev/waybill/internal/fault"
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
	file, err := os.Open(path)
	if err != nil {
		return nil, fault.New(fault.Unavailable, "read the credentials %q: %w", name, err)
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, mostCredentials+1))
	switch {
	case err != nil:
		return nil, fault.New(fault.Unavailable, "read the credentials %q: %w", name, err)
	case len(text) > mostCredentials:
		return nil, fault.New(fault.Invalid, "the credentials %q have more than %d bytes", name, mostCredentials)
	}
	return text, nil
}
