package reconcile

import (
	"vmop/runner/qmp"
	"vmop/vmtypes/plan"
)

// balloon sets what the guest may keep. QEMU refuses 0 and silently clamps what
// is above the machine's memory, so the rule's maximum is the bound here.
func balloon(r plan.Balloon, want, have int64) []qmp.Command {
	want = min(want, r.Maximum)
	if want <= 0 || want == have {
		return nil
	}
	return []qmp.Command{{Execute: "balloon", Arguments: map[string]any{"value": want}}}
}
