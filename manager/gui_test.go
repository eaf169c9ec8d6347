package manager

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	v1 "vmop/api/v1"
	"vmop/internal/yamlfile"
	"vmop/manager/access"
	"vmop/manager/access/login"
)

const (
	hashOfAdmin = "$2b$05$NiBd74ZGdplLC63ePZf1f.UtjMKkbQ23cQoO2OKOFalDBHWAOy21."
	hashOfTest  = "$2b$05$hZaI/jToXf/d3BctZdT38Or7H7h6Pn2W3WiB49p5AyhDHFkkYCvo2"
)

// The keys of VM-Operator's configuration for the web GUI keep their meaning.
func TestTheGUIOfTheOriginal(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile("testdata/gui/original.yaml")
	require.NoError(t, err)
	c, warnings, err := Parse("config.yaml", data)
	require.NoError(t, err)
	require.Equal(t, GUI{
		ClusterName: "north", Port: 8888, PreferIPv6: true, PasswordValidity: 15 * time.Second,
	}, c.GUI)
	require.Equal(t, login.Config{
		Users: []login.User{
			{Name: "admin", FullName: "Administrator", Hash: hashOfAdmin}, {Name: "test", Hash: hashOfTest},
		},
		RedirectURI: "https://vms.example.org/oauth/callback",
		Providers: []login.Provider{
			{
				Name: "corp", DisplayName: "Corporation", ClientID: "vmop", Secret: "hunter2",
				ConfigurationEndpoint: "https://id.example.org/realms/a" + login.WellKnown,
			},
		},
		Roles: login.Roles{
			ByUser: map[string][]string{"admin": {"admin"}, "test": {"user"}, "*": {"other"}}, Replace: true,
		},
	}, c.Login)
	require.Equal(t, "/oauth/callback", c.Login.CallbackPath())
	for role, want := range map[string][2]bool{"admin": {true, true}, "user": {false, true}, "other": {false, false}} {
		subject := access.Subject{User: "x", Roles: []string{role}}
		require.Equal(t, want[0], c.Access.MayUse(subject, access.PageVMs), role)
		require.Equal(t, want[1], c.Access.MayUse(subject, access.PagePortal), role)
	}
	var texts []string
	for _, w := range warnings {
		texts = append(texts, w.String())
	}
	require.Equal(t, []string{
		"config.yaml:38:13: /Manager/GuiHttpServer/ConsoleWeblet/WebConsole/RoleConletFilter.conletTypesByRole.user: no page corresponds to " +
			`"org.example.Other" (such as VmMgmt, VmAccess or *)`,
	}, texts)
}

// The keys that VM-Operator lacks have their documented effect.
func TestOurKeysOfTheGUI(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile("testdata/gui/ours.yaml")
	require.NoError(t, err)
	c, warnings, err := Parse("config.yaml", data)
	require.NoError(t, err)
	require.Empty(t, warnings)
	require.Equal(t, login.Config{
		UsersFile: "/etc/opt/vmoperator/users/users", RedirectURI: "http://127.0.0.1:8080/back",
		PlainHTTP: true, TrustedProxies: []string{"10.0.0.0/8", "2001:db8::1"},
		Providers: []login.Provider{
			{
				Name: "a", Issuer: "https://id.example.org", AuthorizationEndpoint: "https://id.example.org/auth",
				TokenEndpoint: "https://id.example.org/token", KeysEndpoint: "https://id.example.org/keys",
				ClientID: "vmop", SecretFile: "/run/secret", Scopes: []string{"profile", "groups"},
				UserClaim: "email", RolesClaim: "realm_access.roles", RolesMatching: []string{"vm-*"}, Prompt: "login",
			},
			{Name: "b", ConfigurationEndpoint: "https://b.example" + login.WellKnown, ClientID: "x", UserPrefix: "b-"},
		},
		UserPrefix: "oidc:", GroupPrefix: "oidc:", TokenAudience: "vmop",
		IdleTimeout: time.Hour, Lifetime: 24 * time.Hour,
	}, c.Login)
	require.Equal(t, "/back", c.Login.CallbackPath())
	require.Equal(t, access.Policy{
		Mode:           access.ByBoth,
		Administrators: access.Names{Users: []string{"root"}, Roles: []string{"admin"}},
		Permissions: []v1.Permission{
			{Role: "operators", May: []v1.Action{"start", "stop", "create"}}, {User: "ann", May: []v1.Action{"*"}},
		},
	}, c.Access)
	require.Equal(t, GUI{Port: 8080, PasswordValidity: 10 * time.Second, DeleteConnectionFile: true}, c.GUI)
}

// Sections with a former name and settings without effect cause warnings.
func TestWarningsOfTheGUI(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"/Manager/GuiHttpServer: {port: 8081}": "is understood as /Manager/GuiSocketServer.port",
		"/Manager/GuiHttpServer/ConsoleWeblet/WebConsole/ComponentCollector/VmViewer: {displayResource: {preferredIpVersion: ipv6}}": "is understood as /VmAccess",
		"/Manager/Access: {authorization: rbac, permissions: [{user: a, may: [start]}]}":                                             "has no effect with authorization: rbac",
	} {
		_, warnings, err := Parse("c.yaml", []byte(text))
		require.NoError(t, err, text)
		require.Len(t, warnings, 1, text)
		require.Contains(t, warnings[0].String(), want)
	}
}

// Two providers with the same user prefix are refused, because each could impersonate the other's users.
func TestEachProviderNeedsAUserPrefix(t *testing.T) {
	t.Parallel()
	for prefixes, refused := range map[[2]string]bool{
		{"", ""}: true, {"b-", "b-"}: true,
		{"", "b-"}: false, {"a-", ""}: false, {"a-", "b-"}: false, {"a", "ab"}: false,
	} {
		text := fmt.Sprintf(`{/Manager/GuiHttpServer/ConsoleWeblet/WebConsole/OidcClient: {redirectUri: "https://a"},
		  /Manager/GuiHttpServer/ConsoleWeblet/WebConsole/LoginConlet: {oidcProviders: [
		    {name: one, clientId: x, userPrefix: %[1]q, configurationEndpoint: "https://a%[3]s"},
		    {name: two, clientId: x, userPrefix: %[2]q, configurationEndpoint: "https://b%[3]s"}]}}`,
			prefixes[0], prefixes[1], login.WellKnown)
		_, _, err := Parse("c.yaml", []byte(text))
		if !refused {
			require.NoError(t, err, prefixes)
			continue
		}
		require.ErrorContains(t, err, `oidcProviders[1]: the providers "one" and "two" have the same userPrefix`)
	}
}

// Errors and warnings never quote a possible password or secret.
func TestFaultsOfTheGUIQuoteNoSecret(t *testing.T) {
	t.Parallel()
	const at = "/Manager/GuiHttpServer/ConsoleWeblet/WebConsole/LoginConlet: "
	for _, text := range []string{
		"{users: [{name: a, password: hunter2}]}",
		"{users: [{name: a, password: [hunter2]}]}",
		"{users: [{name: a, password: {hunter2: x}}]}",
		"{users: [{name: a, password: $2b$05$hunter2}]}",
		"{oidcProviders: [{name: a, secret: [hunter2]}]}",
		"{oidcProviders: [{name: a, secret: hunter2, secretFile: /a}]}",
	} {
		_, warnings, err := Parse("c.yaml", []byte(at+text))
		var faults yamlfile.Faults
		require.ErrorAs(t, err, &faults, text)
		require.NotContains(t, err.Error()+faults.Excerpts(), "hunter2")
		require.Empty(t, warnings)
	}
}
