package kubetest

import (
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// document returns a document about the server or its kinds; nil if the path names none.
func (s *Server) document(path string) any {
	switch path {
	case "/version":
		return map[string]string{"gitVersion": "v1.36.3"}
	case "/api":
		return &metav1.APIVersions{TypeMeta: metav1.TypeMeta{Kind: "APIVersions"}, Versions: []string{"v1"}}
	case "/apis":
		return s.groups()
	}
	list := &metav1.APIResourceList{}
	group := &metav1.APIGroup{}
	for _, kind := range s.serving() {
		version := metav1.GroupVersionForDiscovery{GroupVersion: kind.GroupVersion().String(), Version: kind.Version}
		switch path {
		case "/api/" + kind.GroupVersion().String(), "/apis/" + kind.GroupVersion().String():
			list.GroupVersion = kind.GroupVersion().String()
			list.APIResources = append(list.APIResources,
				metav1.APIResource{Name: kind.Resource, Kind: kind.Kind, Namespaced: !kind.Cluster, Verbs: verbs})
		case "/apis/" + kind.Group:
			group.Name, group.PreferredVersion = kind.Group, version
			group.Versions = append(group.Versions, version)
		}
	}
	switch {
	case list.APIResources != nil:
		return list
	case group.Name != "":
		return group
	}
	return nil
}

var verbs = metav1.Verbs{"create", "delete", "get", "list", "patch", "update", "watch"}

// groups returns the list of groups.
func (s *Server) groups() *metav1.APIGroupList {
	list := &metav1.APIGroupList{TypeMeta: metav1.TypeMeta{Kind: "APIGroupList", APIVersion: "v1"}}
	for _, kind := range s.serving() {
		if kind.Group == "" {
			continue
		}
		version := metav1.GroupVersionForDiscovery{GroupVersion: kind.GroupVersion().String(), Version: kind.Version}
		at := slices.IndexFunc(list.Groups, func(g metav1.APIGroup) bool { return g.Name == kind.Group })
		if at < 0 {
			list.Groups, at = append(list.Groups, metav1.APIGroup{Name: kind.Group, PreferredVersion: version}), len(list.Groups)
		}
		list.Groups[at].Versions = append(list.Groups[at].Versions, version)
	}
	return list
}

// parsePath returns the resource, the namespace and the name in a path.
func parsePath(path string) (in schema.GroupVersionResource, namespace, name string, ok bool) {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	switch {
	case len(parts) > 2 && parts[0] == "api":
		in.Version, parts = parts[1], parts[2:]
	case len(parts) > 3 && parts[0] == "apis":
		in.Group, in.Version, parts = parts[1], parts[2], parts[3:]
	default:
		return in, "", "", false
	}
	if len(parts) > 2 && parts[0] == "namespaces" {
		namespace, parts = parts[1], parts[2:]
	}
	in.Resource = parts[0]
	if len(parts) > 1 {
		name = parts[1]
	}
	return in, namespace, name, len(parts) <= 2
}
