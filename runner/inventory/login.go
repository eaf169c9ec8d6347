package inventory

// Login returns the user that cloud-init creates in the guest; empty if the configuration contains no user.
func (vm *VM) Login() string {
	if vm.Config == nil {
		return ""
	}
	return vm.Config.CloudInit.Login()
}
