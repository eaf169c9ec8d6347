package login

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
)

// claims are the claims of a token with a verified signature.
type claims map[string]any

// claimAt returns a claim. Dots in name separate the names of nested claims.
func (c claims) claimAt(name string) any {
	if value, given := c[name]; given {
		return value
	}
	outer, inner, nested := strings.Cut(name, ".")
	if object, ok := c[outer].(map[string]any); ok && nested {
		return claims(object).claimAt(inner)
	}
	return nil
}

// ticketFor returns the ticket of the token's user.
func (c claims) ticketFor(p Provider) (ticket, error) {
	if party := c["azp"]; party != nil && party != p.ClientID {
		return ticket{}, errors.New("the token is for another client (azp)")
	}
	claim := p.UserClaim
	if claim == "" {
		claim = "preferred_username"
	}
	user, _ := c.claimAt(claim).(string)
	if user == "" {
		return ticket{}, fmt.Errorf("the token has no claim %s with the user's name (userClaim, scopes of the provider)", claim)
	}
	if claim == "email" && c["email_verified"] != true {
		return ticket{}, errors.New("the provider has not verified the email address")
	}
	user = p.UserPrefix + user
	if err := CheckName(user); err != nil {
		return ticket{}, fmt.Errorf("the claim %s is not the name of a user: %w", claim, err)
	}
	name, _ := c["name"].(string)
	return ticket{
		User: user, Name: nameForLog(name), Method: byProvider, Provider: p.Name, Roles: c.roleNames(p),
	}, nil
}

// roleNames returns the roles that have a valid name and match the provider's configuration.
func (c claims) roleNames(p Provider) []string {
	var given any
	switch {
	case p.RolesClaim != "":
		given = c.claimAt(p.RolesClaim)
	case c["roles"] != nil:
		given = c["roles"]
	default:
		given = c["groups"]
	}
	return slices.DeleteFunc(textsOf(given), func(role string) bool {
		matches := p.RolesMatching == nil || slices.ContainsFunc(p.RolesMatching, func(pattern string) bool {
			ok, err := path.Match(pattern, role)
			return ok && err == nil
		})
		return !matches || CheckName(role) != nil
	})
}

// textsOf returns the strings in a value: the value itself, or the strings in a list.
func textsOf(value any) []string {
	switch value := value.(type) {
	case string:
		return []string{value}
	case []any:
		var all []string
		for _, item := range value {
			if text, ok := item.(string); ok {
				all = append(all, text)
			}
		}
		return all
	}
	return nil
}
