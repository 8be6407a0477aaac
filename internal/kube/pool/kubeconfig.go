package pool

import (
	"errors"
	"fmt"
	"net/url"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
)

// maxKubeconfig bounds the text of a kubeconfig.
const maxKubeconfig = 256 << 10

// ParseKubeconfig returns the configuration of the current context of a kubeconfig that a tenant wrote. It refuses
// programs and paths of files, which would be run and read here.
func ParseKubeconfig(text []byte) (*rest.Config, error) {
	if len(text) > maxKubeconfig {
		return nil, fmt.Errorf("kubeconfig: longer than %d bytes", maxKubeconfig)
	}
	c, err := clientcmd.Load(text)
	if err != nil {
		return nil, errors.New("kubeconfig: not valid YAML of kind Config") // the error may quote credentials
	}
	if err := api.MinifyConfig(c); err != nil {
		return nil, fmt.Errorf("kubeconfig: %w", err)
	}
	if err := checkKubeconfig(c); err != nil {
		return nil, fmt.Errorf("kubeconfig: %w", err)
	}
	config, err := clientcmd.NewNonInteractiveClientConfig(*c, c.CurrentContext, &clientcmd.ConfigOverrides{}, nil).
		ClientConfig()
	if err == nil {
		_, err = rest.TLSConfigFor(config)
	}
	if err != nil {
		return nil, fmt.Errorf("kubeconfig: %w", err)
	}
	return config, nil
}

// checkKubeconfig checks the only context of a kubeconfig.
func checkKubeconfig(c *api.Config) error {
	if len(c.Clusters) == 0 {
		return errors.New("the current context has no cluster")
	}
	for name, cluster := range c.Clusters {
		server, err := url.Parse(cluster.Server)
		if err != nil || server.Host == "" || server.Scheme != "https" && server.Scheme != "http" {
			return fmt.Errorf("clusters[%.100s].server: want https://HOST", name)
		}
		if cluster.CertificateAuthority != "" {
			return fmt.Errorf("clusters[%.100s].certificate-authority: paths of files are refused", name)
		}
	}
	for name, user := range c.AuthInfos {
		for field, used := range map[string]bool{
			"exec":               user.Exec != nil,
			"auth-provider":      user.AuthProvider != nil,
			"tokenFile":          user.TokenFile != "",
			"client-certificate": user.ClientCertificate != "",
			"client-key":         user.ClientKey != "",
		} {
			if used {
				return fmt.Errorf("users[%.100s].%s: programs and paths of files are refused", name, field)
			}
		}
	}
	return nil
}
