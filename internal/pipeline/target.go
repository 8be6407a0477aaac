package pipeline

import (
	"cmp"
	"iter"
	"maps"
	"strings"
)

// Path joins the parts of a target, such as greeter/prod/east/elm.
func Path(parts ...string) string {
	path := parts[0]
	for _, p := range parts[1:] {
		path += "/" + p
	}
	return path
}

// Find resolves a full path such as greeter/prod/east/elm. What the path does not reach is nil;
// ok is false when it names nothing here.
func (d *Definition) Find(target string) (stage *Stage, group *Group, host *Host, ok bool) {
	parts := strings.Split(target, "/")
	if parts[0] != d.Pipeline || len(parts) > 4 {
		return nil, nil, nil, false
	}
	if len(parts) > 1 {
		if stage = byName(d.Stages, parts[1], func(s *Stage) string { return s.Name }); stage == nil {
			return nil, nil, nil, false
		}
	}
	if len(parts) > 2 {
		if group = byName(stage.Groups, parts[2], func(g *Group) string { return g.Name }); group == nil {
			return nil, nil, nil, false
		}
	}
	if len(parts) > 3 {
		if host = byName(group.Hosts, parts[3], func(h *Host) string { return h.Name }); host == nil {
			return nil, nil, nil, false
		}
	}
	return stage, group, host, true
}

// BakeAt returns the bake whose step is of a target: a stage, or a wave such as
// greeter/prod/east/wave-2. It is nil if there is none.
func (d *Definition) BakeAt(target string) *Bake {
	if stage, group, _, ok := d.Find(target); ok {
		if group != nil || stage == nil {
			return nil
		}
		return stage.Bake
	}
	_, group, host, _ := d.Find(GroupOfWave(target))
	if group == nil || host != nil || group.Waves == nil {
		return nil
	}
	return group.Waves.Bake
}

// GroupOfWave returns the path of the group that a wave belongs to, by the wave's path.
func GroupOfWave(wave string) string { return wave[:max(0, strings.LastIndexByte(wave, '/'))] }

// Place is a host with where it is in its definition. The pointers are into the definition.
type Place struct {
	Target string // full path, such as greeter/prod/east/elm
	Stage  *Stage
	Group  *Group
	Host   *Host
	SSH    *SSH // how ssh hosts of the definition are reached; nil: by the defaults
}

// Place returns the host at a full path such as greeter/prod/east/elm.
func (d *Definition) Place(target string) (Place, bool) {
	stage, group, host, ok := d.Find(target)
	return Place{Target: target, Stage: stage, Group: group, Host: host, SSH: d.SSH}, ok && host != nil
}

// ReachedAs returns the place as it is reached under another version of the definition, if that one has the same account
// there: by its jump host, keys and identity. What decides where files are stays: the URL, the root and sudo.
func (p Place) ReachedAs(d *Definition) Place {
	now, ok := d.Place(p.Target)
	if !ok || now.Host.URL != p.Host.URL {
		return p
	}
	host, way := *p.Host, SSH{}
	host.HostKey = now.Host.HostKey
	if now.SSH != nil {
		way = *now.SSH
	}
	way.Sudo = p.SSH != nil && p.SSH.Sudo
	p.Host, p.SSH = &host, &way
	return p
}

// EachHost yields the hosts of all stages, in file order.
func (d *Definition) EachHost() iter.Seq[Place] {
	return func(yield func(Place) bool) {
		for i := range d.Stages {
			stage := &d.Stages[i]
			for j := range stage.Groups {
				group := &stage.Groups[j]
				for k := range group.Hosts {
					host := &group.Hosts[k]
					if !yield(Place{Path(d.Pipeline, stage.Name, group.Name, host.Name), stage, group, host, d.SSH}) {
						return
					}
				}
			}
		}
	}
}

// Resource is the object that attempts change: a service at an address. One pipeline owns it. Hosts of several stages
// may be one resource; at most one action is live on it at a time.
type Resource struct {
	Address string `json:"address"` // as Host.Address returns it
	Service string `json:"service"` // name of the service; the pipeline's name by default
}

// String returns the address and the service, as messages show them.
func (r Resource) String() string { return r.Address + " " + r.Service }

// ResourceOf returns the resource that a host's steps change.
func (d *Definition) ResourceOf(stage *Stage, group *Group, host *Host) Resource {
	service := d.ServiceOf(stage, group, host)
	return Resource{Address: host.Address(), Service: cmp.Or(service.Name, d.Pipeline)}
}

// ServiceOf returns the service on a host: the host's over the group's over the stage's over the
// pipeline's. The service found replaces the outer ones as a whole. group and host may be nil.
func (d *Definition) ServiceOf(stage *Stage, group *Group, host *Host) Service {
	switch {
	case host != nil && host.Service != nil:
		return *host.Service
	case group != nil && group.Service != nil:
		return *group.Service
	case stage != nil && stage.Service != nil:
		return *stage.Service
	}
	return d.Service
}

// VarsOf merges the variables that hold for a host: host over group over stage over pipeline.
// The built-in ones, such as ${host}, are not in it. group and host may be nil.
func (d *Definition) VarsOf(stage *Stage, group *Group, host *Host) map[string]string {
	vars := maps.Clone(d.Vars)
	if vars == nil {
		vars = map[string]string{}
	}
	if stage != nil {
		maps.Copy(vars, stage.Vars)
	}
	if group != nil {
		maps.Copy(vars, group.Vars)
	}
	if host != nil {
		maps.Copy(vars, host.Vars)
	}
	return vars
}

// byName returns a pointer to the first element of list whose name is as given, or nil. of returns
// an element's name.
func byName[T any](list []T, name string, of func(*T) string) *T {
	for i := range list {
		if of(&list[i]) == name {
			return &list[i]
		}
	}
	return nil
}
