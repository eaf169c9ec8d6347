package login

import (
	"slices"

	"vmop/manager/access"
)

// Roles contains the roles that the configuration assigns.
type Roles struct {
	// ByUser maps users to roles; "*" stands for every user.
	ByUser map[string][]string
	// Replace ignores the roles from providers and tokens.
	Replace bool
}

// rolesOf returns the roles of a user; brought are the roles from the provider or token.
func (r Roles) rolesOf(user string, brought []string) []string {
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

// subjectOf returns the user of a ticket as an access.Subject.
func (c Config) subjectOf(t ticket) access.Subject {
	s := access.Subject{User: t.User, Roles: c.Roles.rolesOf(t.User, t.Roles)}
	if t.Cluster.User != "" { // from a service account's token
		s.Cluster = t.Cluster
		return s
	}
	if name := c.UserPrefix + t.User; !isReservedName(name) {
		s.Cluster.User = name
		for _, role := range s.Roles {
			if group := c.GroupPrefix + role; !isReservedName(group) {
				s.Cluster.Groups = append(s.Cluster.Groups, group)
			}
		}
		s.Cluster.Groups = append(s.Cluster.Groups, "system:authenticated")
	}
	return s
}
