package reconcile

import (
	"vmop/runner/qmp"
	"vmop/vmtypes/plan"
)

// password sets password and expiry of a display. QEMU forgets the expiry when
// the password is set, so it follows each time.
func password(r plan.Password, want, have *Password) []qmp.Command {
	if want == nil || want.equal(have) {
		return nil
	}
	set := map[string]any{"protocol": r.Protocol, "password": want.Text.Reveal()}
	if r.Display != "" {
		set["display"] = r.Display
	}
	commands := []qmp.Command{{Execute: "set_password", Arguments: set}}
	if want.Expiry != "" {
		expire := map[string]any{"protocol": r.Protocol, "time": want.Expiry}
		if r.Display != "" {
			expire["display"] = r.Display
		}
		commands = append(commands, qmp.Command{Execute: "expire_password", Arguments: expire})
	}
	return commands
}
