package inventory

// Login returns the user whom cloud-init makes in the guest: the first of those that the
// configuration names; empty if it names none.
func (vm *VM) Login() string {
	if vm.Config == nil || vm.Config.CloudInit == nil {
		return ""
	}
	var data struct {
		User  any   `yaml:"user"`
		Users []any `yaml:"users"`
	}
	if vm.Config.CloudInit.UserData.Decode(&data) != nil {
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
