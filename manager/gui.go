package manager

import (
	"fmt"
	"maps"
	"net/netip"
	"net/url"
	"path"
	"slices"
	"strings"
	"time"

	v1 "vmop/api/v1"
	"vmop/manager/access"
	"vmop/manager/login"
	"vmop/vmspec"
	"vmop/yamlfile"
)

// GUI is what the web pages depend on, besides Config.Login and Config.Access.
type GUI struct {
	// ClusterName is shown; "" means none.
	ClusterName string
	// Port of the pages. TLSFolder has their certificate and key; "" means that they have none.
	Port      int
	TLSFolder string
	// PreferIPv6 chooses among the addresses of a node for a connection file, which the viewer
	// deletes if DeleteConnectionFile.
	PreferIPv6, DeleteConnectionFile bool
	// PasswordValidity is how long a display password can be used that was made for a user.
	PasswordValidity time.Duration
}

func defaultGUI() GUI {
	return GUI{Port: 8080, DeleteConnectionFile: true, PasswordValidity: 10 * time.Second}
}

// Sections of the pages.
const (
	webPath     = "/Manager/GuiHttpServer"
	consolePath = webPath + "/ConsoleWeblet/WebConsole"
	loginPath   = consolePath + "/LoginConlet"
	accessPath  = "/Manager/Access"
)

type socketPart struct {
	Port int64 `yaml:"port" min:"1"`
}

type webPart struct {
	Port           int64    `yaml:"port" former:"/GuiSocketServer.port" min:"1"`
	TLSFolder      string   `yaml:"tlsFolder"`
	PlainHTTP      bool     `yaml:"plainHTTP"`
	TrustedProxies []string `yaml:"trustedProxies"`
	Weblet         struct {
		Console consolePart `yaml:"/WebConsole"`
	} `yaml:"/ConsoleWeblet"`
}

type consolePart struct {
	Login loginPart `yaml:"/LoginConlet"`
	OIDC  struct {
		RedirectURI string `yaml:"redirectUri"`
	} `yaml:"/OidcClient"`
	Roles struct {
		ByUser  map[string]any `yaml:"rolesByUser"`
		Replace bool           `yaml:"replace"`
	} `yaml:"/RoleConfigurator"`
	Filter struct {
		ByRole map[string]any `yaml:"conletTypesByRole"`
	} `yaml:"/RoleConletFilter"`
	Collector struct {
		VMAccess *vmAccessPart `yaml:"/VmAccess"`
		VMViewer *vmAccessPart `yaml:"/VmViewer" former:"/VmAccess"`
	} `yaml:"/ComponentCollector"`
}

type loginPart struct {
	Users     []userPart     `yaml:"users"`
	UsersFile string         `yaml:"usersFile"`
	Providers []providerPart `yaml:"oidcProviders"`
}

type userPart struct {
	Name     string `yaml:"name"`
	FullName string `yaml:"fullName"`
	Password string `yaml:"password"`
}

type providerPart struct {
	Name                  string   `yaml:"name"`
	DisplayName           string   `yaml:"displayName"`
	ConfigurationEndpoint string   `yaml:"configurationEndpoint"`
	AuthorizationEndpoint string   `yaml:"authorizationEndpoint"`
	TokenEndpoint         string   `yaml:"tokenEndpoint"`
	KeysEndpoint          string   `yaml:"keysEndpoint"`
	Issuer                string   `yaml:"issuer"`
	ClientID              string   `yaml:"clientId"`
	Secret                string   `yaml:"secret"`
	SecretFile            string   `yaml:"secretFile"`
	Scopes                []string `yaml:"scopes"`
	UserClaim             string   `yaml:"userClaim"`
	RolesClaim            string   `yaml:"rolesClaim"`
	RolesMatching         []string `yaml:"rolesMatching"`
	UserPrefix            string   `yaml:"userPrefix"`
	Prompt                string   `yaml:"prompt"`
	Popup                 any      `yaml:"popup"` // there is none
}

type vmAccessPart struct {
	DisplayResource struct {
		PreferredIPVersion string `yaml:"preferredIpVersion"`
	} `yaml:"displayResource"`
	DeleteConnectionFile any `yaml:"deleteConnectionFile"`
	SyncPreviewsFor      any `yaml:"syncPreviewsFor"` // the portal shows all VMs that a user may use
}

type accessPart struct {
	Authorization  string `yaml:"authorization"`
	Administrators struct {
		Users []string `yaml:"users"`
		Roles []string `yaml:"roles"`
	} `yaml:"administrators"`
	Permissions []struct {
		User string   `yaml:"user"`
		Role string   `yaml:"role"`
		May  []string `yaml:"may"`
	} `yaml:"permissions"`
	UserPrefix      string         `yaml:"userPrefix"`
	GroupPrefix     string         `yaml:"groupPrefix"`
	TokenAudience   string         `yaml:"tokenAudience"`
	IdleTimeout     vmspec.Seconds `yaml:"idleTimeout" min:"60"`
	SessionLifetime vmspec.Seconds `yaml:"sessionLifetime" min:"60"`
}

// fillGUI sets what a file contains of the pages and their users.
func fillGUI(c *Config, f file, document *yamlfile.Document, faults *faults) (warnings []yamlfile.Warning) {
	web, console := f.Manager.WebGUI, f.Manager.WebGUI.Weblet.Console
	c.GUI.ClusterName = f.Manager.ClusterName
	for _, given := range []struct {
		key  string
		port int64
	}{{webPath + ".port", web.Port}, {"/Manager/GuiSocketServer.port", f.Manager.SocketGUI.Port}} {
		if given.port > 65535 {
			faults.add(given.key, fmt.Sprintf("%d is not a port", given.port), "1 to 65535")
		}
		if given.port > 0 {
			c.GUI.Port = int(given.port)
		}
	}
	if document.Given(webPath + ".port") {
		warnings = append(warnings, document.Warning(webPath+".port", "is understood as /Manager/GuiSocketServer.port",
			"use the new name"))
	}
	secret := f.Manager.Controller.PasswordFormer
	if now := f.Manager.Controller.Reconciler.DisplaySecret; now != nil {
		secret = now
	}
	if secret != nil && secret.PasswordValidity > 0 {
		c.GUI.PasswordValidity = time.Duration(secret.PasswordValidity) * time.Second
	}
	c.GUI.TLSFolder = web.TLSFolder
	faults.absolute(webPath+".tlsFolder", web.TLSFolder)
	if web.TLSFolder != "" && web.PlainHTTP {
		faults.add(webPath+".plainHTTP", "there is a tlsFolder, too", "one of them")
	}
	faults.viewer(&c.GUI, console)
	faults.logins(&c.Login, web)
	faults.access(c, f.Manager.Access)
	c.Access.Conlets = faults.lists(consolePath+"/RoleConletFilter.conletTypesByRole", console.Filter.ByRole)
	return append(warnings, guiWarnings(*c, document)...)
}

// guiWarnings are about what works and may not be what was meant.
func guiWarnings(c Config, document *yamlfile.Document) (warnings []yamlfile.Warning) {
	if at := consolePath + "/ComponentCollector/VmViewer"; document.Given(at) {
		warnings = append(warnings, document.Warning(at, "is understood as /VmAccess", "use the new name"))
	}
	for _, role := range slices.Sorted(maps.Keys(c.Access.Conlets)) {
		for _, entry := range c.Access.Conlets[role] {
			conlet, _ := access.ConletOf(entry)
			if _, known := access.PageOf(conlet); !known && conlet != "*" {
				warnings = append(warnings, document.Warning(consolePath+"/RoleConletFilter.conletTypesByRole."+role,
					fmt.Sprintf("no page corresponds to %q", entry), "such as VmMgmt, VmAccess or *"))
			}
		}
	}
	if at := accessPath + ".permissions"; document.Given(at) && c.Access.Mode == access.ByRBAC {
		warnings = append(warnings, document.Warning(at, "has no effect with authorization: rbac", "use both"))
	}
	return warnings
}

// viewer reads what is for files of viewers.
func (f *faults) viewer(g *GUI, console consolePart) {
	at, part := consolePath+"/ComponentCollector/VmAccess", console.Collector.VMAccess
	if part == nil {
		at, part = consolePath+"/ComponentCollector/VmViewer", console.Collector.VMViewer
	}
	if part == nil {
		return
	}
	switch version := part.DisplayResource.PreferredIPVersion; strings.ToLower(version) {
	case "", "ipv4":
	case "ipv6":
		g.PreferIPv6 = true
	default:
		f.add(at+".displayResource.preferredIpVersion", fmt.Sprintf("%q is not a version", version), "ipv4 or ipv6")
	}
	switch value := part.DeleteConnectionFile.(type) {
	case nil:
	case bool:
		g.DeleteConnectionFile = value
	case string:
		if value != "true" && value != "false" {
			f.add(at+".deleteConnectionFile", "got "+shown(value)+", want true or false", "")
		}
		g.DeleteConnectionFile = value == "true"
	default:
		f.add(at+".deleteConnectionFile", "got "+shown(value)+", want true or false", "")
	}
}

// logins reads who can log in.
func (f *faults) logins(c *login.Config, web webPart) {
	part := web.Weblet.Console
	c.PlainHTTP, c.TrustedProxies = web.PlainHTTP, web.TrustedProxies
	for i, proxy := range web.TrustedProxies {
		if _, err := netip.ParsePrefix(proxy); err != nil {
			if _, err := netip.ParseAddr(proxy); err != nil {
				f.add(fmt.Sprintf("%s.trustedProxies[%d]", webPath, i),
					fmt.Sprintf("%q is not an address or a prefix", proxy), "such as 10.0.0.0/8")
			}
		}
	}
	seen := map[string]bool{}
	for i, u := range part.Login.Users {
		at := fmt.Sprintf("%s.users[%d]", loginPath, i)
		if err := login.CheckName(u.Name); err != nil {
			f.add(at+".name", fmt.Sprintf("%q is not the name of a user: %v", u.Name, err), "")
		}
		if seen[u.Name] {
			f.add(at+".name", fmt.Sprintf("the user %q is there twice", u.Name), "")
		}
		seen[u.Name] = true
		if err := login.CheckHash(u.Password); err != nil { // what was written is not quoted
			f.add(at+".password", err.Error(), "vmmanager hash-password prints one")
		}
		c.Users = append(c.Users, login.User{Name: u.Name, FullName: u.FullName, Hash: u.Password})
	}
	c.UsersFile = part.Login.UsersFile
	f.absolute(loginPath+".usersFile", c.UsersFile)
	c.Roles.ByUser = f.lists(consolePath+"/RoleConfigurator.rolesByUser", part.Roles.ByUser)
	c.Roles.Replace = part.Roles.Replace
	c.RedirectURI = part.OIDC.RedirectURI
	for i, p := range part.Login.Providers {
		f.provider(fmt.Sprintf("%s.oidcProviders[%d]", loginPath, i), p)
		if slices.ContainsFunc(c.Providers, func(o login.Provider) bool { return o.Name == p.Name }) {
			f.add(fmt.Sprintf("%s.oidcProviders[%d].name", loginPath, i), fmt.Sprintf("%q is there twice", p.Name), "")
		}
		same := func(o login.Provider) bool { return o.UserPrefix == p.UserPrefix && o.Name != p.Name }
		if other := slices.IndexFunc(c.Providers, same); other >= 0 {
			f.add(fmt.Sprintf("%s.oidcProviders[%d]", loginPath, i), fmt.Sprintf(
				"the providers %q and %q have the same userPrefix %q: each could name the users of the other",
				c.Providers[other].Name, p.Name, p.UserPrefix), "give each provider, but one, a userPrefix of its own")
		}
		c.Providers = append(c.Providers, login.Provider{
			Name: p.Name, DisplayName: p.DisplayName, Issuer: p.Issuer,
			ConfigurationEndpoint: p.ConfigurationEndpoint, AuthorizationEndpoint: p.AuthorizationEndpoint,
			TokenEndpoint: p.TokenEndpoint, KeysEndpoint: p.KeysEndpoint,
			ClientID: p.ClientID, Secret: p.Secret, SecretFile: p.SecretFile, Scopes: p.Scopes,
			UserClaim: p.UserClaim, RolesClaim: p.RolesClaim, RolesMatching: p.RolesMatching,
			UserPrefix: p.UserPrefix, Prompt: p.Prompt,
		})
	}
	if at := consolePath + "/OidcClient.redirectUri"; c.RedirectURI != "" {
		if f.url(at, c.RedirectURI); strings.ContainsAny(c.RedirectURI, "?#") {
			f.add(at, "a redirect URI has no query here", "")
		}
	} else if len(c.Providers) > 0 {
		f.add(loginPath+".oidcProviders", "providers need to know where to send browsers back to",
			consolePath+"/OidcClient: {redirectUri: https://HOST/oauth/callback}")
	}
}

// absolute wants an absolute path, or none.
func (f *faults) absolute(at, file string) {
	if file != "" && !path.IsAbs(file) {
		f.add(at, fmt.Sprintf("%q is not an absolute path", file), "")
	}
}

// provider checks one of OpenID Connect.
func (f *faults) provider(at string, p providerPart) {
	for _, needed := range [][2]string{{"name", p.Name}, {"clientId", p.ClientID}} {
		if needed[1] == "" {
			f.add(at, needed[0]+" is missing", "")
		}
	}
	for _, link := range [][2]string{
		{"configurationEndpoint", p.ConfigurationEndpoint},
		{"authorizationEndpoint", p.AuthorizationEndpoint},
		{"tokenEndpoint", p.TokenEndpoint},
		{"keysEndpoint", p.KeysEndpoint},
		{"issuer", p.Issuer},
	} {
		if link[1] != "" {
			f.url(at+"."+link[0], link[1])
		}
	}
	endpoint := p.ConfigurationEndpoint
	switch {
	case endpoint != "" && !strings.HasSuffix(endpoint, login.WellKnown):
		f.add(at+".configurationEndpoint", fmt.Sprintf("%q does not end with %s", endpoint, login.WellKnown), "")
	case endpoint == "" &&
		slices.Contains([]string{p.AuthorizationEndpoint, p.TokenEndpoint, p.KeysEndpoint, p.Issuer}, ""):
		f.add(at, "tokens can't be checked without configurationEndpoint",
			"or else issuer, authorizationEndpoint, tokenEndpoint and keysEndpoint")
	}
	if p.Secret != "" && p.SecretFile != "" {
		f.add(at+".secretFile", "there is a secret, too", "one of them")
	}
	for i, pattern := range p.RolesMatching {
		if _, err := path.Match(pattern, ""); err != nil {
			f.add(fmt.Sprintf("%s.rolesMatching[%d]", at, i), fmt.Sprintf("%q is not a pattern", pattern),
				"such as vm-*")
		}
	}
}

// url wants a URL by TLS, or one of this computer.
func (f *faults) url(at, text string) {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Host == "" || u.User != nil:
		f.add(at, fmt.Sprintf("%q is not a URL", text), "such as https://HOST/PATH")
	case u.Scheme == "https":
	case u.Scheme != "http":
		f.add(at, fmt.Sprintf("%q is not a URL by https", text), "")
	case u.Hostname() != "localhost" && !isLoopback(u.Hostname()):
		f.add(at, "everyone on the way could read what is sent by http", "https")
	}
}

func isLoopback(host string) bool {
	address, err := netip.ParseAddr(host)
	return err == nil && address.IsLoopback()
}

// lists reads a mapping of lists of texts.
func (f *faults) lists(at string, value map[string]any) map[string][]string {
	if value == nil {
		return nil
	}
	made := make(map[string][]string, len(value))
	for _, key := range slices.Sorted(maps.Keys(value)) {
		items, ok := value[key].([]any)
		if !ok && value[key] != nil {
			f.add(at+"."+key, "got "+shown(value[key])+", want a list", "")
		}
		made[key] = []string{}
		for i, item := range items {
			text, ok := item.(string)
			if !ok {
				f.add(fmt.Sprintf("%s.%s[%d]", at, key, i), "got "+shown(item)+", want a text", "put it in quotes")
			}
			made[key] = append(made[key], text)
		}
	}
	return made
}

// access reads who may do what.
func (f *faults) access(c *Config, part accessPart) {
	modes := []string{string(access.ByPermissions), string(access.ByRBAC), string(access.ByBoth)}
	if mode := part.Authorization; mode != "" && !slices.Contains(modes, mode) {
		f.add(accessPath+".authorization", fmt.Sprintf("%q is unknown", mode), choice(mode, modes))
	}
	c.Access.Mode = access.Mode(part.Authorization)
	c.Access.Administrators = access.Names{Users: part.Administrators.Users, Roles: part.Administrators.Roles}
	actions := []string{"*"}
	for _, verb := range access.Verbs() {
		if verb != access.View {
			actions = append(actions, string(verb))
		}
	}
	for i, p := range part.Permissions {
		at := fmt.Sprintf("%s.permissions[%d]", accessPath, i)
		if (p.User == "") == (p.Role == "") {
			f.add(at, "want either user or role", "")
		}
		given := v1.Permission{User: p.User, Role: p.Role}
		for j, action := range p.May {
			if !slices.Contains(actions, action) {
				f.add(fmt.Sprintf("%s.may[%d]", at, j), fmt.Sprintf("%q is not an action", action),
					choice(action, actions))
			}
			given.May = append(given.May, v1.Action(action))
		}
		c.Access.Permissions = append(c.Access.Permissions, given)
	}
	c.Login.UserPrefix, c.Login.GroupPrefix = part.UserPrefix, part.GroupPrefix
	c.Login.TokenAudience = part.TokenAudience
	c.Login.IdleTimeout = time.Duration(part.IdleTimeout) * time.Second
	c.Login.Lifetime = time.Duration(part.SessionLifetime) * time.Second
}
