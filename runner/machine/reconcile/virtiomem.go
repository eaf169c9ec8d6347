package reconcile

import (
	"vmop/qmp"
	"vmop/vmtypes/plan"
)

// virtioMem adds memory to the guest's initial memory, in blocks, and takes it back; see virtio-mem in QEMU's
// manual.
type virtioMem struct{ rule plan.Memory }

func (v virtioMem) startValues() (told, actual int64) { return 0, v.rule.Base }
func (v virtioMem) deviceName() string                { return "virtio-mem device" }

func (v virtioMem) reachableSize(ram int64) int64 {
	more := max(min(ram, v.rule.Maximum)-v.rule.Base, 0)
	return v.rule.Base + more/v.rule.Block*v.rule.Block
}

func (v virtioMem) setCommand(ram int64) qmp.Command {
	return qmp.Command{Execute: "qom-set", Arguments: map[string]any{
		"path": peripheral + v.rule.Device, "property": "requested-size", "value": ram - v.rule.Base,
	}}
}

func (v virtioMem) getCommand() qmp.Command {
	return qmp.Command{Execute: "qom-get", Arguments: map[string]any{
		"path":     peripheral + v.rule.Device,
		"property": "size",
	}}
}

func (v virtioMem) readSize(a answer) (int64, error) {
	var size int64
	err := a.decodeInto(&size)
	return v.rule.Base + size, err
}

func (v virtioMem) changedSize(e event) (int64, bool) {
	return v.rule.Base + e.data.Size, e.name == "MEMORY_DEVICE_SIZE_CHANGE" && e.data.ID == v.rule.Device &&
		e.data.Size >= 0
}
