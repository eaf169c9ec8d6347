package cloudinit

import (
	"strings"

	"gopkg.in/yaml.v3"
)

// Login returns the user whom cloud-init makes in the guest: the first of those that the data
// name; empty if they name none.
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
		return "" // it is a script, for example
	}
	for _, user := range append([]any{data.User}, data.Users...) {
		switch user := user.(type) {
		case string:
			if user != "default" { // that of the distribution, whatever it is
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
