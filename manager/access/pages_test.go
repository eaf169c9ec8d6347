package access

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestPagesByRole(t *testing.T) {
	t.Parallel()
	const mgmt, portal = "org.jdrupes.vmoperator.vmmgmt.VmMgmt", "org.jdrupes.vmoperator.vmaccess.VmAccess"
	policy := Policy{
		Administrators: Names{Roles: []string{"root"}},
		Conlets: map[string][]string{
			"admin":   {"*"},
			"user":    {portal},
			"sees":    {"!" + portal, "-" + mgmt, "*"},
			"nothing": {"--*"},
			"most":    {"--" + mgmt, "*"},
			"late":    {"*", "--" + mgmt},
			"login":   {"org.jgrapes.webconlet.oidclogin.LoginConlet"},
			"system":  {"org.jgrapes.webconlet.sysinfo.SysInfoConlet"},
		},
	}
	all, no := []Page{PageVMs, PagePortal, PageSystem}, []Page{}
	for role, want := range map[string][]Page{
		"root": all, "admin": all, "user": {PagePortal}, "sees": all, "nothing": no, "most": {PagePortal, PageSystem},
		"late": all, "login": no, "system": {PageSystem}, "other": no, "": no,
	} {
		require.Equal(t, want, pages(policy, Subject{User: "ann", Roles: []string{role}}), role)
		require.Empty(t, pages(policy, Subject{Roles: []string{role}}))
	}
	require.Equal(t, all, pages(policy, Subject{User: "ann", Roles: []string{"user", "nothing", "login", "admin"}}))
	require.Equal(t, []Page{PageVMs, PagePortal}, pages(Policy{}, Subject{User: "ann"}))
	require.Empty(t, pages(Policy{}, Subject{}))
	require.Empty(t, pages(Policy{Conlets: map[string][]string{}}, Subject{User: "ann", Roles: []string{"admin"}}))
	_, known := PageOf("org.jdrupes.vmoperator.vmmgmt.VmMgnt")
	require.False(t, known)
}

func pages(p Policy, s Subject) []Page {
	found := []Page{}
	for _, page := range []Page{PageVMs, PagePortal, PageSystem} {
		if p.MayUse(s, page) {
			found = append(found, page)
		}
	}
	return found
}
