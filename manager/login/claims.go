package login

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
)

// claims are those of a token whose signature has been checked.
type claims map[string]any

// at returns a claim by its name, or by names with dots between them for nested ones.
func (c claims) at(name string) any {
	if value, given := c[name]; given {
		return value
	}
	outer, inner, nested := strings.Cut(name, ".")
	if object, ok := c[outer].(map[string]any); ok && nested {
		return claims(object).at(inner)
	}
	return nil
}

// ticket returns whose token it is.
func (c claims) ticket(p Provider) (ticket, error) {
	if party := c["azp"]; party != nil && party != p.ClientID {
		return ticket{}, errors.New("the token is for another client (azp)")
	}
	claim := p.UserClaim
	if claim == "" {
		claim = "preferred_username"
	}
	user, _ := c.at(claim).(string)
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
		User: user, Name: shown(name), Method: byProvider, Provider: p.Name, Roles: c.roles(p),
	}, nil
}

// roles returns those that can be names, and that the provider is configured for.
func (c claims) roles(p Provider) []string {
	var given any
	switch {
	case p.RolesClaim != "":
		given = c.at(p.RolesClaim)
	case c["roles"] != nil:
		given = c["roles"]
	default:
		given = c["groups"]
	}
	return slices.DeleteFunc(texts(given), func(role string) bool {
		matches := p.RolesMatching == nil || slices.ContainsFunc(p.RolesMatching, func(pattern string) bool {
			ok, err := path.Match(pattern, role)
			return ok && err == nil
		})
		return !matches || CheckName(role) != nil
	})
}

// texts returns a text, or those of a list.
func texts(value any) []string {
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
