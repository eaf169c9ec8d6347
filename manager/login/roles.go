package login

import (
	"slices"

	"vmop/manager/access"
)

// Roles are those that the configuration gives.
type Roles struct {
	// ByUser has the roles of users; "*" stands for every user.
	ByUser map[string][]string
	// Replace ignores the roles of providers and tokens.
	Replace bool
}

// of returns the roles of a user who brings some.
func (r Roles) of(user string, brought []string) []string {
	var roles []string
	if !r.Replace {
		roles = slices.Clone(brought)
	}
	roles = append(roles, r.ByUser[user]...)
	if user != "*" {
		roles = append(roles, r.ByUser["*"]...)
	}
	slices.Sort(roles)
	return slices.DeleteFunc(slices.Compact(roles), func(role string) bool { return role == "" })
}

// subject returns a user as package access knows it.
func (c Config) subject(t ticket) access.Subject {
	s := access.Subject{User: t.User, Roles: c.Roles.of(t.User, t.Roles)}
	if t.Cluster.User != "" { // of a service account's token
		s.Cluster = t.Cluster
		return s
	}
	if name := c.UserPrefix + t.User; !reserved(name) {
		s.Cluster.User = name
		for _, role := range s.Roles {
			if group := c.GroupPrefix + role; !reserved(group) {
				s.Cluster.Groups = append(s.Cluster.Groups, group)
			}
		}
		s.Cluster.Groups = append(s.Cluster.Groups, "system:authenticated")
	}
	return s
}
