package runner_test

import (
	"os"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/test/guest"
	"vmop/test/tier"
)

// The guest mounts folders of the host and reads their files, and its changes appear on the host immediately. The
// servers end with the VM.
func TestFoldersAreShared(t *testing.T) {
	t.Parallel()
	for vmType, commandLine := range map[string]string{"shares": "", "civirtiofs": "tsc_early_khz=" + frequency(t)} {
		t.Run(vmType, func(t *testing.T) {
			tier.Deep(t)
			t.Parallel()
			shareFolders(t, vmType, commandLine)
		})
	}
}

// shareFolders runs a guest with two folders on a type with shares.
func shareFolders(t *testing.T, vmType, commandLine string) {
	defer guest.TakePlace(t)()
	v := newVM(t, vmType)
	v.types = "../examples/vmtypes"
	for _, name := range []string{"one", "two"} {
		require.NoError(t, os.Mkdir(v.path(name), 0o755))
		v.write(name+"/from-host", "hello from "+name+"\n")
	}
	v.configure(vmType, nil, append(kernel(t, commandLine), "network: []",
		"options: {shares: [{source: PATH/one, tag: first}, {source: PATH/two, tag: second}]}")...)
	c := attach(v)
	v.runs()
	c.Await(`READY`)
	for i, tag := range []string{"first", "second"} {
		name := []string{"one", "two"}[i]
		mnt := "/mnt/" + strconv.Itoa(i)
		c.Type("sh mkdir " + mnt + " && mount -t virtiofs " + tag + " " + mnt + " && cat " + mnt +
			"/from-host && echo written " + tag + " >" + mnt + "/from-guest")
		c.Await(`^hello from ` + name + `$`)
		c.Await(`^rc=0$`)
		require.Equal(t, "written "+tag+"\n", v.read(name, "from-guest"))
	}
	v.write("one/later", "seen\n")
	c.Type("sh cat /mnt/0/later")
	c.Await(`^seen$`)
	v.ends()
}
