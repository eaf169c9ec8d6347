package guest_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/runner/guest"
)

func TestDisksOfAGuest(t *testing.T) {
	t.Parallel()
	const address = `{"pci-controller": {"domain": 0, "bus": 1, "slot": 15, "function": 7}, "bus-type": "virtio", ` +
		`"bus": 0, "target": 2, "unit": 3, "serial": "s", "dev": "/dev/vda1"}`
	at := guest.DiskAddress{PCI: "0000:01:0f.7", Target: 2, Unit: 3, Serial: "s", Device: "/dev/vda1"}
	unknown := strings.Replace(address, `"slot": 15`, `"slot": -1`, 1)
	hostile := strings.Replace(address, `"serial": "s"`, `"serial": "`+strings.Repeat("x", 9000)+`\u001b[2J"`, 1)
	disks, err := tells(t, `[{"name": "/dev/vda", "partition": false, "address": `+address+`},`+
		`{"name": "/dev/vda1", "partition": true}, {"name": ""}, {"name": "\u001b[2J", "address": `+unknown+`},`+
		`{"name": "x", "address": `+hostile+`}]`).Disks(t.Context())
	require.NoError(t, err)
	require.Equal(t, guest.Disk{Name: "/dev/vda", DiskAddress: at}, disks[0])
	require.Equal(t, guest.Disk{Name: "/dev/vda1", Partition: true}, disks[1])
	require.Len(t, disks, 4)
	require.NotContains(t, disks[2].Name, "\x1b")
	require.Empty(t, disks[2].PCI)
	require.LessOrEqual(t, len(disks[3].Serial), guest.MaxText+3)

	mounted, err := tells(t, `[{"name": "vda1", "mountpoint": "/", "type": "ext4", "disk": [`+address+`]},`+
		`{"name": "x", "mountpoint": "", "disk": []}, {"mountpoint": "/none"}, {"mountpoint": "/null", "disk": [null]},`+
		`{"mountpoint": "/many", "disk": [`+strings.TrimSuffix(strings.Repeat(address+",", 99), ",")+`]}]`).
		FileSystems(t.Context())
	require.NoError(t, err)
	require.Equal(t, guest.FileSystem{Mount: "/", Disks: []guest.DiskAddress{at}}, mounted[0])
	require.Len(t, mounted, 4)
	require.Len(t, mounted[3].Disks, 16)

	many := "[" + strings.TrimSuffix(strings.Repeat(`{"name": "/dev/x"},`, 999), ",") + "]"
	disks, err = tells(t, many).Disks(t.Context())
	require.NoError(t, err)
	require.Len(t, disks, guest.MaxDisks)
	_, err = tells(t, `{"no": "list"}`).FileSystems(t.Context())
	require.ErrorContains(t, err, "guest-get-fsinfo: read the reply")
}
