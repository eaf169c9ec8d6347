package inventory

// Login returns the user whom cloud-init makes in the guest; empty if the configuration names
// none.
func (vm *VM) Login() string {
	if vm.Config == nil {
		return ""
	}
	return vm.Config.CloudInit.Login()
}
