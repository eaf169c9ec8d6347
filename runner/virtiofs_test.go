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
	tier.Deep(t)
	t.Parallel()
	defer guest.TakePlace(t)()
	v := newVM(t, "shares")
	v.types = "../examples/vmtypes"
	for _, name := range []string{"one", "two"} {
		require.NoError(t, os.Mkdir(v.path(name), 0o755))
		v.write(name+"/from-host", "hello from "+name+"\n")
	}
	v.configure("shares", nil, append(kernel(t, ""), "network: []",
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
