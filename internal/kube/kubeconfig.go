package kube

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"

	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/file"
)

// Excerpt returns a kubeconfig that has one context of a file alone, as its current one, and in it the content of
// further files that the file names; server is the address of the API server. context "" is the file's current one. A
// file that is not there or wrong is fault.Invalid.
func Excerpt(file, context string) (text []byte, server string, err error) {
	c, err := clientcmd.LoadFromFile(file)
	if err != nil {
		return nil, "", fault.New(fault.Invalid, "kubeconfig %s: %w", file, err)
	}
	if context != "" {
		c.CurrentContext = context
	}
	if err := flatten(c); err != nil {
		return nil, "", fault.New(fault.Invalid, "kubeconfig %s: %w", file, err)
	}
	for _, cluster := range c.Clusters { // the only one
		server = cluster.Server
	}
	if text, err = clientcmd.Write(*c); err != nil {
		return nil, "", fmt.Errorf("write an excerpt of %s: %w", file, err)
	}
	return text, server, nil
}

// flatten leaves the current context alone, with the content of further files.
func flatten(c *api.Config) error {
	if err := api.MinifyConfig(c); err != nil {
		return err
	}
	if err := clientcmd.ResolveLocalPaths(c); err != nil {
		return err
	}
	for _, user := range c.AuthInfos {
		if user.TokenFile == "" {
			continue
		}
		token, err := file.Read(user.TokenFile, file.Most)
		if err != nil {
			return err
		}
		user.Token, user.TokenFile = strings.TrimSpace(string(token)), ""
	}
	return api.FlattenConfig(c)
}

// Contexts lists the contexts of kubectl's kubeconfig, by name; none if the file is missing or wrong.
func Contexts() []string {
	c, err := clientcmd.NewDefaultClientConfigLoadingRules().Load()
	if err != nil {
		return nil
	}
	return slices.Sorted(maps.Keys(c.Contexts))
}

// Inside reports whether this process runs in a cluster whose API server it may reach.
func Inside() bool {
	_, err := rest.InClusterConfig()
	return err == nil
}
