package cloudinit

import (
	"strings"

	"gopkg.in/yaml.v3"
)

// Login returns the first user that cloud-init creates in the guest according to the data; empty if the data
// contains no user.
func (c *Config) Login() string {
	if c == nil {
		return ""
	}
	var data struct {
		User  any   `yaml:"user"`
		Users []any `yaml:"users"`
	}
	decode := c.UserData.Decode
	if text := c.UserData.Value; c.UserData.Kind == yaml.ScalarNode && !strings.HasPrefix(text, "#!") {
		decode = func(into any) error { return yaml.Unmarshal([]byte(text), into) }
	}
	if decode(&data) != nil {
		return "" // a script, for example
	}
	for _, user := range append([]any{data.User}, data.Users...) {
		switch user := user.(type) {
		case string:
			if user != "default" { // the distribution's default user, with an unknown name
				return user
			}
		case map[string]any:
			if name, ok := user["name"].(string); ok {
				return name
			}
		}
	}
	return ""
}
