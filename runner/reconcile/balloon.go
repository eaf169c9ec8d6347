package reconcile

import (
	"vmop/qmp"
	"vmop/vmtypes/plan"
)

// balloon takes memory back from the guest. QEMU refuses 0 and silently clamps
// what is above the machine's memory, so the rule's maximum is the bound here.
type balloon struct{ rule plan.Balloon }

func (b balloon) start() (told, actual int64) { return b.rule.Maximum, b.rule.Maximum }
func (b balloon) reach(ram int64) int64       { return min(ram, b.rule.Maximum) }
func (b balloon) name() string                { return "balloon" }
func (b balloon) get() qmp.Command            { return qmp.Command{Execute: "query-balloon"} }

func (b balloon) set(ram int64) qmp.Command {
	return qmp.Command{Execute: "balloon", Arguments: map[string]any{"value": ram}}
}

func (b balloon) read(a answer) (int64, error) {
	var info struct{ Actual int64 }
	err := a.decode(&info)
	return info.Actual, err
}

func (b balloon) changed(e event) (int64, bool) {
	return e.data.Actual, e.name == "BALLOON_CHANGE" && e.data.Actual > 0
}
