package reconcile_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/runner/reconcile"
	"vmop/vmspec"
	"vmop/vmtypes/plan"
)

// Where a disk is, its name says, as long as it is the one that is wanted.
func TestSlotOf(t *testing.T) {
	t.Parallel()
	data := reconcile.Drive{Index: 2}
	data.Drive = vmspec.Drive{File: "/data.img", Format: "raw", Serial: "a-b", ReadOnly: true}
	rule := plan.Disks{Driver: "virtio-blk-pci", Buses: make([]string, 32)}
	id := reconcile.AttachmentOf(rule, data, reconcile.Slot{Place: 31}, nil).Node
	slot, err := reconcile.SlotOf(id, []reconcile.Drive{{}, data})
	require.NoError(t, err)
	require.Equal(t, reconcile.Slot{Place: 31, Serial: "a-b", ReadOnly: true}, slot)
	cd := data
	cd.Type, cd.File = vmspec.DriveIDECD, "/cd.iso"
	onUSB := plan.Disks{CDDriver: "scsi-cd", CDBus: "usb.0", CDHolder: "usb-bot"}
	inCD := reconcile.AttachmentOf(onUSB, cd, reconcile.Slot{}, nil).Node
	require.NotEqual(t, id, inCD)
	for _, name := range []string{inCD, "cd-" + inCD} {
		serial, attached := reconcile.SerialOf(name)
		require.True(t, attached, name)
		require.Equal(t, "a-b", serial)
	}
	other := data
	other.File = "/other.img"
	for _, c := range []struct {
		id   string
		want []reconcile.Drive
		why  string
	}{
		{"usb0", []reconcile.Drive{data}, "its disk usb0 was attached by hand; detach it first"},
		{
			id,
			[]reconcile.Drive{other},
			"its disk a-b is attached with another file, format or readOnly than vm.drives[2] has",
		},
		{inCD, []reconcile.Drive{data}, "its CD drive a-b is attached with another file, format or readOnly than vm.drives[2] has"},
		{"cd-" + inCD, nil, "its CD drive a-b is to be detached, and the guest has not released it yet"},
		{id, nil, "its disk a-b is to be detached, and the guest has not released it yet"},
	} {
		_, err := reconcile.SlotOf(c.id, c.want)
		require.EqualError(t, err, c.why)
	}
}
