package runner_test

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/test/guest"
	"vmop/test/tier"
	"vmop/test/wait"
)

// A guest configures itself from files: cloud-init data (300 KiB in the file that this guest doesn't print), and answer
// files, which Windows would find on a removable disk. Changed content needs a restart, and no log quotes it.
func TestDataFromFiles(t *testing.T) {
	tier.Deep(t)
	t.Parallel()
	defer guest.TakePlace(t)()
	const canary = "c4n4ry"
	v := newVM(t, "standard")
	require.NoError(t, os.MkdirAll(v.path("answers"), 0o700))
	v.write("user-data", "#!/bin/sh\n# "+canary+"\n")
	v.write("network-config", "version: 2\n"+strings.Repeat("# 0123456789abc\n", 300<<10/16))
	v.write("answers/unattend.xml", "<unattend>"+canary+"</unattend>\n")
	v.configure("standard", []string{
		"cloudInit: {userDataFile: user-data, networkConfigFile: network-config}", "provisioned: true",
		"sysprep: {directory: answers}",
	}, append(boots(guest.PC(t), ""), "network: []", "powerdownTimeout: 240")...)
	c := attach(v)
	v.runs()
	for _, image := range []string{"cloud-init.img", "sysprep.img"} {
		info, err := os.Stat(v.path("run", image))
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o600), info.Mode())
	}
	c.Await(`READY`)
	c.Type("sh mkdir -p /m /c; until [ -b /dev/sda ]; do usleep 100000; done; mount -t vfat -o ro /dev/sda /m; " +
		"echo removable=$(cat /sys/block/sda/removable) label=$(dd if=/dev/sda bs=1 skip=43 count=8 2>/dev/null); " +
		"head -n1 /m/Autounattend.xml /m/Unattend.xml; mount -t vfat -o ro /dev/vda /c; wc -c < /c/network-config; echo done")
	c.Await(`^done$`)
	require.Contains(t, c.Text(), "removable=1 label=UNATTEND")
	require.Equal(t, 2, strings.Count(c.Text(), "<unattend>"+canary+"</unattend>"), "under both names")
	require.Contains(t, c.Text(), "307211\n")

	v.write("user-data", "#!/bin/sh\n# other\n")
	awaitPending(t, v, "provisioning")
	v.write("answers/autounattend.xml", "<unattend>"+canary+"2</unattend>\n")
	awaitPending(t, v, "provisioning", "sysprep")
	require.NoError(t, os.RemoveAll(v.path("answers")))
	v.configure("standard", []string{
		"cloudInit: {userDataFile: user-data, networkConfigFile: network-config}", "provisioned: true",
		"sysprep: {directory: answers}",
	}, append(boots(guest.PC(t), ""), "network: []", "powerdownTimeout: 239")...)
	v.log.await(t, v.ended, "configuration read") // even though the files no longer exist
	require.NotContains(t, v.log.text(), canary)
	v.ends()
}

func awaitPending(t *testing.T, v *vm, paths ...string) {
	t.Helper()
	wait.Until(t, func() bool {
		var have []string
		for _, c := range v.status().RestartAwaitingChanges {
			have = append(have, c.Path)
		}
		return strings.Join(have, " ") == strings.Join(paths, " ")
	}, "%v", paths)
}
