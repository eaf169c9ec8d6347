package reconcile_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/qmp"
	"vmop/runner/machine/reconcile"
	"vmop/vmspec"
	"vmop/vmtypes/plan"
)

// An attached disk's slot is read from its block node's name, as long as the disk is still wanted.
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

// said returns the names of commands in order as sent to QEMU, and the arguments of the last command of each name.
func said(t *testing.T, commands []qmp.Command) (names []string, arguments map[string]map[string]any) {
	t.Helper()
	arguments = map[string]map[string]any{}
	for _, c := range commands {
		text, err := json.Marshal(c.Arguments)
		require.NoError(t, err)
		of := map[string]any{}
		require.NoError(t, json.Unmarshal(text, &of))
		names, arguments[c.Execute] = append(names, c.Execute), of
	}
	return names, arguments
}

// QEMU verifies the certificate of an NBD server before it opens the disk, and the credentials are removed after a
// failure.
func TestAnNBDServersCertificateIsVerified(t *testing.T) {
	t.Parallel()
	data := reconcile.Drive{Index: 1}
	data.Drive = vmspec.Drive{
		Serial: "data", NBD: &vmspec.NBD{Host: "n1", Port: 10809, Export: "data", TLS: "/certificates"},
	}
	rule := plan.Disks{Driver: "virtio-blk-pci", Buses: []string{"port0"}}
	a := reconcile.AttachmentOf(rule, data, reconcile.Slot{}, nil)
	names, arguments := said(t, a.Do)
	require.Equal(t, []string{"object-add", "blockdev-add", "device_add"}, names)
	of := arguments["object-add"]
	require.Equal(t, map[string]any{
		"qom-type": "tls-creds-x509", "id": of["id"], "endpoint": "client", "verify-peer": true, "dir": "/certificates",
	}, of)
	require.NotEmpty(t, of["id"])
	require.Contains(t, arguments["blockdev-add"], "tls-creds")
	require.Equal(t, of["id"], arguments["blockdev-add"]["tls-creds"])
	names, arguments = said(t, a.Clear)
	require.Equal(t, []string{"object-del"}, names)
	require.Equal(t, of["id"], arguments["object-del"]["id"])
}

// A CD drive keeps its address, because the target of a migration must use the source's address.
func TestACDDriveKeepsItsAddress(t *testing.T) {
	t.Parallel()
	cd := reconcile.Drive{Index: 1}
	cd.Drive = vmspec.Drive{Type: vmspec.DriveIDECD, Serial: "cd", File: "/cd.iso", Format: "raw"}
	onSCSI := plan.Disks{CDDriver: "scsi-cd", CDBus: "scsi.0"}
	onUSB := plan.Disks{CDDriver: "scsi-cd", CDBus: "usb.0", CDHolder: "usb-bot"}

	a := reconcile.AttachmentOf(onSCSI, cd, reconcile.Slot{CD: "3"}, nil)
	names, arguments := said(t, a.Do)
	require.Equal(t, []string{"add-fd", "blockdev-add", "device_add"}, names)
	require.EqualValues(t, 3, arguments["device_add"]["scsi-id"])
	require.Equal(t, "scsi.0", arguments["device_add"]["bus"])
	require.Empty(t, a.Plug)

	a = reconcile.AttachmentOf(onUSB, cd, reconcile.Slot{CD: "1.2"}, nil)
	names, arguments = said(t, a.Do)
	require.Equal(t, []string{"add-fd", "blockdev-add", "device_add", "device_add"}, names)
	require.Equal(t, a.Node+".0", arguments["device_add"]["bus"], "the drive is in the holder")
	_, arguments = said(t, a.Do[:3])
	holder := map[string]any{"driver": "usb-bot", "id": a.Node, "bus": "usb.0", "port": "1.2"}
	require.Equal(t, holder, arguments["device_add"])
	names, _ = said(t, a.Plug)
	require.Equal(t, []string{"qom-set"}, names)

	for _, rule := range []plan.Disks{onSCSI, onUSB} { // QEMU chooses one
		_, arguments = said(t, reconcile.AttachmentOf(rule, cd, reconcile.Slot{}, nil).Do[:3])
		require.NotContains(t, arguments["device_add"], "port")
		require.NotContains(t, arguments["device_add"], "scsi-id")
	}
}
