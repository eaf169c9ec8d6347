package manager

import (
	"fmt"
	"maps"
	"net/netip"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	v1 "vmop/api/v1"
	"vmop/internal/yamlfile"
	"vmop/manager/access"
	"vmop/manager/access/login"
	"vmop/vmspec"
)

// GUI contains the settings of the web pages, except Config.Login and Config.Access.
type GUI struct {
	// ClusterName is shown on the pages; "" shows no name.
	ClusterName string
	// Port of the pages. TLSFolder contains their certificate and key; "" means no TLS.
	Port      int
	TLSFolder string
	// PreferIPv6 selects IPv6 among a node's addresses for connection files. DeleteConnectionFile makes the
	// viewer delete its connection file.
	PreferIPv6, DeleteConnectionFile bool
	// PasswordValidity is how long a display password that was created for a user is valid.
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
	login.Provider `yaml:",inline"`
	Popup          any `yaml:"popup"` // ignored: there are no popups
}

type vmAccessPart struct {
	DisplayResource struct {
		PreferredIPVersion string `yaml:"preferredIpVersion"`
	} `yaml:"displayResource"`
	DeleteConnectionFile any `yaml:"deleteConnectionFile"`
	SyncPreviewsFor      any `yaml:"syncPreviewsFor"` // ignored: the portal shows all VMs that a user may use
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

// fillGUI sets the values from a file that concern the pages and their users.
func fillGUI(c *Config, f file, document *yamlfile.Document, faults *faults) (warnings []yamlfile.Warning) {
	web, console := f.Manager.WebGUI, f.Manager.WebGUI.Weblet.Console
	c.GUI.ClusterName = f.Manager.ClusterName
	for _, given := range []struct {
		key  string
		port int64
	}{{webPath + ".port", web.Port}, {"/Manager/GuiSocketServer.port", f.Manager.SocketGUI.Port}} {
		if given.port > 65535 {
			faults.addFault(given.key, fmt.Sprintf("%d is not a port", given.port), "1 to 65535")
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
	faults.checkAbsolute(webPath+".tlsFolder", web.TLSFolder)
	if web.TLSFolder != "" && web.PlainHTTP {
		faults.addFault(webPath+".plainHTTP", "there is also a tlsFolder", "give only one of them")
	}
	faults.readViewer(&c.GUI, console)
	faults.readLogins(&c.Login, web)
	faults.readAccess(c, f.Manager.Access)
	c.Access.Conlets = faults.readLists(consolePath+"/RoleConletFilter.conletTypesByRole", console.Filter.ByRole)
	return append(warnings, guiWarnings(*c, document)...)
}

// guiWarnings returns warnings about valid settings that are probably mistakes.
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

// readViewer reads the settings for connection files.
func (f *faults) readViewer(g *GUI, console consolePart) {
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
		f.addFault(at+".displayResource.preferredIpVersion", fmt.Sprintf("%q is not a version", version),
			"ipv4 or ipv6")
	}
	switch value := part.DeleteConnectionFile.(type) {
	case nil:
	case bool:
		g.DeleteConnectionFile = value
	case string:
		if value != "true" && value != "false" {
			f.addFault(at+".deleteConnectionFile", "must be true or false, not "+valueText(value), "")
		}
		g.DeleteConnectionFile = value == "true"
	default:
		f.addFault(at+".deleteConnectionFile", "must be true or false, not "+valueText(value), "")
	}
}

// readLogins reads the settings for logging in.
func (f *faults) readLogins(c *login.Config, web webPart) {
	part := web.Weblet.Console
	c.PlainHTTP, c.TrustedProxies = web.PlainHTTP, web.TrustedProxies
	for i, proxy := range web.TrustedProxies {
		if _, err := netip.ParsePrefix(proxy); err != nil {
			if _, err := netip.ParseAddr(proxy); err != nil {
				f.addFault(fmt.Sprintf("%s.trustedProxies[%d]", webPath, i),
					fmt.Sprintf("%q is not an address or a prefix", proxy), "such as 10.0.0.0/8")
			}
		}
	}
	seen := map[string]bool{}
	for i, u := range part.Login.Users {
		at := fmt.Sprintf("%s.users[%d]", loginPath, i)
		if err := login.CheckName(u.Name); err != nil {
			f.addFault(at+".name", fmt.Sprintf("%q is not the name of a user: %v", u.Name, err), "")
		}
		if seen[u.Name] {
			f.addFault(at+".name", fmt.Sprintf("the user %q exists twice", u.Name), "")
		}
		seen[u.Name] = true
		if err := login.CheckHash(u.Password); err != nil { // the error does not quote the hash
			f.addFault(at+".password", err.Error(), "vmmanager hash-password prints one")
		}
		c.Users = append(c.Users, login.User{Name: u.Name, FullName: u.FullName, Hash: u.Password})
	}
	c.UsersFile = part.Login.UsersFile
	f.checkAbsolute(loginPath+".usersFile", c.UsersFile)
	c.Roles.ByUser = f.readLists(consolePath+"/RoleConfigurator.rolesByUser", part.Roles.ByUser)
	c.Roles.Replace = part.Roles.Replace
	c.RedirectURI = part.OIDC.RedirectURI
	for i, p := range part.Login.Providers {
		f.readProvider(c, fmt.Sprintf("%s.oidcProviders[%d]", loginPath, i), p)
	}
	if at := consolePath + "/OidcClient.redirectUri"; c.RedirectURI != "" {
		if f.checkURL(at, c.RedirectURI); strings.ContainsAny(c.RedirectURI, "?#") {
			f.addFault(at, "a redirect URI has no query here", "")
		}
	} else if len(c.Providers) > 0 {
		f.addFault(loginPath+".oidcProviders", "providers need to know where to send browsers back to",
			consolePath+"/OidcClient: {redirectUri: https://HOST/oauth/callback}")
	}
}

// readProvider adds an OpenID provider, and notes what is wrong with it.
func (f *faults) readProvider(c *login.Config, at string, p providerPart) {
	f.checkProvider(at, p)
	if slices.ContainsFunc(c.Providers, func(o login.Provider) bool { return o.Name == p.Name }) {
		f.addFault(at+".name", strconv.Quote(p.Name)+" exists twice", "")
	}
	same := func(o login.Provider) bool { return o.UserPrefix == p.UserPrefix && o.Name != p.Name }
	if other := slices.IndexFunc(c.Providers, same); other >= 0 {
		f.addFault(at, fmt.Sprintf(
			"the providers %q and %q have the same userPrefix %q: each could name the users of the other",
			c.Providers[other].Name, p.Name, p.UserPrefix), "give all providers but one a different userPrefix")
	}
	c.Providers = append(c.Providers, p.Provider)
}

// checkAbsolute checks that file is "" or an absolute path.
func (f *faults) checkAbsolute(at, file string) {
	if file != "" && !path.IsAbs(file) {
		f.addFault(at, fmt.Sprintf("%q is not an absolute path", file), "")
	}
}

// checkProvider checks an OpenID Connect provider.
func (f *faults) checkProvider(at string, p providerPart) {
	for _, needed := range [][2]string{{"name", p.Name}, {"clientId", p.ClientID}} {
		if needed[1] == "" {
			f.addFault(at, needed[0]+" is missing", "")
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
			f.checkURL(at+"."+link[0], link[1])
		}
	}
	endpoint := p.ConfigurationEndpoint
	switch {
	case endpoint != "" && !strings.HasSuffix(endpoint, login.WellKnown):
		f.addFault(at+".configurationEndpoint", fmt.Sprintf("%q does not end with %s", endpoint, login.WellKnown), "")
	case endpoint == "" &&
		slices.Contains([]string{p.AuthorizationEndpoint, p.TokenEndpoint, p.KeysEndpoint, p.Issuer}, ""):
		f.addFault(at, "tokens can't be checked without configurationEndpoint",
			"or issuer, authorizationEndpoint, tokenEndpoint and keysEndpoint")
	}
	if p.Secret != "" && p.SecretFile != "" {
		f.addFault(at+".secretFile", "there is also a secret", "give only one of them")
	}
	for i, pattern := range p.RolesMatching {
		if _, err := path.Match(pattern, ""); err != nil {
			f.addFault(fmt.Sprintf("%s.rolesMatching[%d]", at, i), fmt.Sprintf("%q is not a pattern", pattern),
				"such as vm-*")
		}
	}
}

// checkURL checks for a URL with https, or for a URL of this computer.
func (f *faults) checkURL(at, text string) {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Host == "" || u.User != nil:
		f.addFault(at, fmt.Sprintf("%q is not a URL", text), "such as https://HOST/PATH")
	case u.Scheme == "https":
	case u.Scheme != "http":
		f.addFault(at, fmt.Sprintf("%q is not an https URL", text), "")
	case u.Hostname() != "localhost" && !isLoopbackHost(u.Hostname()):
		f.addFault(at, "everyone on the way could read data that is sent over http", "https")
	}
}

func isLoopbackHost(host string) bool {
	address, err := netip.ParseAddr(host)
	return err == nil && address.IsLoopback()
}

// readLists reads a mapping of lists of strings.
func (f *faults) readLists(at string, value map[string]any) map[string][]string {
	if value == nil {
		return nil
	}
	made := make(map[string][]string, len(value))
	for _, key := range slices.Sorted(maps.Keys(value)) {
		items, ok := value[key].([]any)
		if !ok && value[key] != nil {
			f.addFault(at+"."+key, "must be a list, not "+valueText(value[key]), "")
		}
		made[key] = []string{}
		for i, item := range items {
			text, ok := item.(string)
			if !ok {
				f.addFault(fmt.Sprintf("%s.%s[%d]", at, key, i), "must be text, not "+valueText(item),
					"put it in quotes")
			}
			made[key] = append(made[key], text)
		}
	}
	return made
}

// readAccess reads the settings for permissions.
func (f *faults) readAccess(c *Config, part accessPart) {
	modes := []string{string(access.ByPermissions), string(access.ByRBAC), string(access.ByBoth)}
	if mode := part.Authorization; mode != "" && !slices.Contains(modes, mode) {
		f.addFault(accessPath+".authorization", fmt.Sprintf("%q is unknown", mode), expandChoice(mode, modes))
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
			f.addFault(at, "set either user or role", "")
		}
		given := v1.Permission{User: p.User, Role: p.Role}
		for j, action := range p.May {
			if !slices.Contains(actions, action) {
				f.addFault(fmt.Sprintf("%s.may[%d]", at, j), fmt.Sprintf("%q is not an action", action),
					expandChoice(action, actions))
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
