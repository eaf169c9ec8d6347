package login

import (
	"fmt"
	"strings"
	"time"
)

// Config is what an administrator configures. Package manager reads and checks it.
type Config struct {
	// Users are local users; UsersFile has more of them, a line each: name:hash. It is read
	// again when it changes; "" means that there is none.
	Users     []User
	UsersFile string
	// Providers are those of OpenID Connect, with different names.
	Providers []Provider
	// RedirectURI is where providers send browsers to; needed with providers.
	RedirectURI string
	Roles       Roles
	// UserPrefix and GroupPrefix precede the names of users, and those of roles, where the
	// cluster's RBAC is asked about them.
	UserPrefix, GroupPrefix string
	// TokenAudience is the audience of bearer tokens; "" means that none is accepted.
	TokenAudience string
	// IdleTimeout ends a session that isn't used, Lifetime any. 0 means the default.
	IdleTimeout, Lifetime time.Duration
	// PlainHTTP allows browsers to send cookies without TLS.
	PlainHTTP bool
	// TrustedProxies are addresses or prefixes whose X-Forwarded-For is believed.
	TrustedProxies []string
}

// The defaults are VM-Operator's.
const (
	DefaultIdleTimeout = 30 * time.Minute
	DefaultLifetime    = 9 * time.Hour
)

// User is a local user.
type User struct {
	Name string
	// FullName is shown; "" means Name.
	FullName string
	// Hash of the password, by bcrypt: $2a$, $2b$ or $2y$.
	Hash string
}

// Provider is one of OpenID Connect.
type Provider struct {
	// Name of the provider; DisplayName is shown.
	Name, DisplayName string
	// Issuer is the URL that tokens name. Its metadata is at ConfigurationEndpoint, which
	// must be below some URL as /.well-known/openid-configuration.
	Issuer, ConfigurationEndpoint string
	// Without metadata: where to log in, to redeem a code, and to find the keys.
	AuthorizationEndpoint, TokenEndpoint, KeysEndpoint string
	ClientID                                           string
	// Secret of the client; SecretFile is read whenever it is needed, if it isn't "".
	Secret, SecretFile string
	// Scopes besides openid. nil means profile.
	Scopes []string
	// UserClaim has the user's name, RolesClaim a role or a list of them: a name, or names
	// with dots between them for nested claims. "" means preferred_username; roles, or else
	// groups.
	UserClaim, RolesClaim string
	// UserPrefix precedes names of users.
	UserPrefix string
	// RolesMatching are patterns as of path.Match; other roles are ignored. nil means all.
	RolesMatching []string
	// Prompt is that of OpenID Connect, such as login; "" lets the provider decide.
	Prompt string
}

func (c Config) idleTimeout() time.Duration {
	if c.IdleTimeout == 0 {
		return DefaultIdleTimeout
	}
	return c.IdleTimeout
}

func (c Config) lifetime() time.Duration {
	if c.Lifetime == 0 {
		return DefaultLifetime
	}
	return c.Lifetime
}

// user returns a local user.
func (c Config) user(name string) (User, bool) {
	for _, u := range c.Users {
		if u.Name == name {
			return u, true
		}
	}
	return User{}, false
}

// foreign returns why a provider may not name a user: the user is a local one, or has the prefix of another provider.
func (c Config) foreign(of Provider, user string) error {
	if _, local := c.user(user); local {
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

func (c Config) provider(name string) (Provider, bool) {
	for _, p := range c.Providers {
		if p.Name == name {
			return p, true
		}
	}
	return Provider{}, false
}
