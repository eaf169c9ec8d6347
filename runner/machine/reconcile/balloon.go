package reconcile

import (
	"vmop/qmp"
	"vmop/vmtypes/plan"
)

// balloon takes memory back from the guest. QEMU refuses 0 and silently clamps values above the machine's memory,
// so values are limited to the rule's maximum here.
type balloon struct{ rule plan.Balloon }

func (b balloon) startValues() (told, actual int64) { return b.rule.Maximum, b.rule.Maximum }
func (b balloon) reachableSize(ram int64) int64     { return min(ram, b.rule.Maximum) }
func (b balloon) deviceName() string                { return "balloon" }
func (b balloon) getCommand() qmp.Command           { return qmp.Command{Execute: "query-balloon"} }

func (b balloon) setCommand(ram int64) qmp.Command {
	return qmp.Command{Execute: "balloon", Arguments: map[string]any{"value": ram}}
}

func (b balloon) readSize(a answer) (int64, error) {
	var info struct{ Actual int64 }
	err := a.decodeInto(&info)
	return info.Actual, err
}

func (b balloon) changedSize(e event) (int64, bool) {
	return e.data.Actual, e.name == "BALLOON_CHANGE" && e.data.Actual > 0
}
