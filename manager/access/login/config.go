package login

import (
	"fmt"
	"strings"
	"time"
)

// Config is the administrator's configuration. Package manager reads and checks it.
type Config struct {
	// Users are the local users. UsersFile contains more users, one per line: name:hash. The service reads the
	// file again when it changes; "" means no file.
	Users     []User
	UsersFile string
	// Providers are OpenID Connect providers with unique names.
	Providers []Provider
	// RedirectURI is the address that providers redirect browsers to. It is required if there are providers.
	RedirectURI string
	Roles       Roles
	// UserPrefix and GroupPrefix are prepended to the names of users and roles in questions to the cluster's
	// RBAC.
	UserPrefix, GroupPrefix string
	// TokenAudience is the audience of bearer tokens; "" means that service account tokens are refused.
	TokenAudience string
	// IdleTimeout limits the time between uses of a session, Lifetime its total duration. 0 means the default.
	IdleTimeout, Lifetime time.Duration
	// PlainHTTP allows browsers to send cookies without TLS.
	PlainHTTP bool
	// TrustedProxies are the addresses or prefixes of proxies with a trustworthy X-Forwarded-For header.
	TrustedProxies []string
}

// The defaults are the same as VM-Operator's.
const (
	defaultIdleTimeout = 30 * time.Minute
	defaultLifetime    = 9 * time.Hour
)

// User is a local user.
type User struct {
	Name string
	// FullName is the display name; "" means Name.
	FullName string
	// Hash is the bcrypt hash of the password: $2a$, $2b$ or $2y$.
	Hash string
}

// Provider is an OpenID Connect provider. The tags are its keys in the manager's configuration.
type Provider struct {
	// Name identifies the provider; DisplayName is shown to users.
	Name        string `yaml:"name"`
	DisplayName string `yaml:"displayName"`
	// Issuer is the issuer URL in tokens. The metadata is at ConfigurationEndpoint, which must be a URL followed
	// by /.well-known/openid-configuration.
	Issuer                string `yaml:"issuer"`
	ConfigurationEndpoint string `yaml:"configurationEndpoint"`
	// The endpoints for logging in, for redeeming a code, and for fetching keys, if the provider has no metadata.
	AuthorizationEndpoint string `yaml:"authorizationEndpoint"`
	TokenEndpoint         string `yaml:"tokenEndpoint"`
	KeysEndpoint          string `yaml:"keysEndpoint"`
	ClientID              string `yaml:"clientId"`
	// Secret of the client. If SecretFile is not "", it is read each time the secret is needed.
	Secret     string `yaml:"secret"`
	SecretFile string `yaml:"secretFile"`
	// Scopes are requested in addition to openid. nil means profile.
	Scopes []string `yaml:"scopes"`
	// UserClaim contains the user's name, RolesClaim one role or a list of roles. Each is a claim's name; dots
	// separate the names of nested claims. "" means preferred_username for the user, and roles or, without it,
	// groups for the roles.
	UserClaim  string `yaml:"userClaim"`
	RolesClaim string `yaml:"rolesClaim"`
	// RolesMatching are patterns in the syntax of path.Match. Roles that match no pattern are ignored. nil
	// accepts all roles.
	RolesMatching []string `yaml:"rolesMatching"`
	// UserPrefix is prepended to the names of users.
	UserPrefix string `yaml:"userPrefix"`
	// Prompt is OpenID Connect's prompt parameter, such as login; "" lets the provider decide.
	Prompt string `yaml:"prompt"`
}

func (c Config) idleTimeout() time.Duration {
	if c.IdleTimeout == 0 {
		return defaultIdleTimeout
	}
	return c.IdleTimeout
}

func (c Config) sessionLifetime() time.Duration {
	if c.Lifetime == 0 {
		return defaultLifetime
	}
	return c.Lifetime
}

// localUser returns a local user.
func (c Config) localUser(name string) (User, bool) {
	for _, u := range c.Users {
		if u.Name == name {
			return u, true
		}
	}
	return User{}, false
}

// refuseForeign returns an error if a provider may not name a user: because a local user has that name, or because the
// name has another provider's prefix.
func (c Config) refuseForeign(of Provider, user string) error {
	if _, local := c.localUser(user); local {
		return fmt.Errorf("%q is the name of a local user (userPrefix of the provider)", user)
	}
	for _, p := range c.Providers {
		longer := len(p.UserPrefix) > len(of.UserPrefix)
		if p.Name != of.Name && longer && strings.HasPrefix(user, p.UserPrefix) {
			return fmt.Errorf("%q begins with the userPrefix of the provider %s", user, p.Name)
		}
	}
	return nil
}

func (c Config) providerNamed(name string) (Provider, bool) {
	for _, p := range c.Providers {
		if p.Name == name {
			return p, true
		}
	}
	return Provider{}, false
}
