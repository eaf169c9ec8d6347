package vmtypes_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/tools/txtar"

	"vmop/authoring/sample"
	"vmop/vmspec"
	"vmop/vmtypes"
	"vmop/vmtypes/plan"
)

// stated matches the statements of the stock types. Pinned types of earlier versions have no statements.
var stated = regexp.MustCompile(`(?m)^ *(ports = \{.*\}|drives = \{.*\}|role = "tpm"),\n`)

// The statements of the stock types match their options. Pinned types without statements therefore result in the same
// plans.
func TestTypesOfEarlierVersionsLoseNothing(t *testing.T) {
	t.Parallel()
	library, err := vmtypes.Open("")
	require.NoError(t, err)
	paths, err := sample.Find(goldens)
	require.NoError(t, err)
	said := 0
	for _, path := range paths {
		g, err := sample.Read(path)
		require.NoError(t, err)
		vmType, err := library.Load(t.Context(), g.Type)
		require.NoError(t, err)
		archive, err := vmType.Archive()
		require.NoError(t, err)
		said += len(stated.FindAll(archive, -1))
		old, err := vmtypes.LoadArchive(t.Context(), stated.ReplaceAll(archive, nil))
		require.NoError(t, err)
		now, err := vmType.Launch(t.Context(), g.VM, g.Host.Host())
		require.NoError(t, err)
		before, err := old.Launch(t.Context(), g.VM, g.Host.Host())
		require.NoError(t, err)
		require.Equal(t, now.Text(), before.Text(), path)
	}
	require.Greater(t, said, 2*len(paths), "the pattern finds what is to be left out")
}

// launched returns the plan of a type with the launch function "return part(…)".
func launched(t *testing.T, part string, drives ...vmspec.Drive) (*plan.Plan, error) {
	t.Helper()
	source := "def launch(vm, host):\n    return part(executable = \"/bin/qemu\",\n" + part + "\n    )\n"
	library, err := vmtypes.Open(folder(t, []txtar.File{{Name: "x.star", Data: []byte(source)}}))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, library.Close()) })
	vmType, err := library.Load(t.Context(), "x")
	require.NoError(t, err)
	spec := smallVM()
	spec.Drives = drives
	return vmType.Launch(t.Context(), spec, emptyHost())
}

// lines returns the lines of a plan's text that begin with a word.
func lines(p *plan.Plan, word string) string {
	var found []string
	for _, l := range p.Lines() {
		if rest, ok := strings.CutPrefix(strings.TrimSpace(l.Text), word+" "); ok {
			found = append(found, rest)
		}
	}
	return strings.Join(found, "\n")
}

// A drive is found by its device, by each of its nodes, and by its file, in any notation of the options.
func TestDrivesOfAPlan(t *testing.T) {
	t.Parallel()
	p, err := launched(t, `
        options = [
            option("-blockdev", None, {"node-name": "disk0-file", "driver": "file", "filename": "/a.img"}),
            option("-blockdev", None, {"node-name": "disk0-format", "driver": "raw", "file": "disk0-file"}),
            option("-device", "virtio-blk-pci", {"id": "disk0", "drive": "disk0-format"}),
            option("-blockdev", '{"node-name": "x", "driver": "raw", "file": {"driver": "host_device", "filename": "/dev/sdx"}}'),
            option("-device", "virtio-blk-pci,id=disk1,drive=x"),
            option("-drive", "if=none,id=third,file=/c.qcow2"),
            option("-device", '{"driver": "scsi-hd", "id": "disk2", "drive": "third"}'),
            option("-blockdev", None, {"node-name": "loop", "driver": "raw", "file": "loop"}),  # a mistake
            option("-drive", None, {"id": "cd0-medium", "if": "none", "file.driver": "file", "file.filename": "/cd.iso"}),
            option("-device", "ide-cd", {"id": "cd0", "drive": "cd0-medium"}),
            option("-device", "ide-cd", {"id": "cd1"}),
            option("-blockdev", None, {"node-name": "flash", "driver": "raw", "file.driver": "file", "file.filename": "/fw.fd"}),
            option("-device", "strange", {"id": "disk9"}),
        ],
        drives = {"disk9": 5},
        hotplug = [hotplug.medium(0, "cd0"), hotplug.medium(4, "cd1")],`,
		vmspec.Drive{File: "/cd.iso"}, vmspec.Drive{File: "/a.img"}, vmspec.Drive{Device: "/dev/sdx"},
		vmspec.Drive{Resource: "/c.qcow2"},
		vmspec.Drive{Type: vmspec.DriveIDECD}, vmspec.Drive{File: "/other.img"})
	require.NoError(t, err)
	require.Equal(t, strings.TrimSpace(`
vm.drives[0] device=cd0 nodes=cd0-medium
vm.drives[1] device=disk0 nodes=disk0-format,disk0-file file=/a.img
vm.drives[2] device=disk1 nodes=x file=/dev/sdx
vm.drives[3] device=disk2 nodes=third file=/c.qcow2
vm.drives[4] device=cd1
vm.drives[5] device=disk9
- nodes=flash file=/fw.fd`), lines(p, "drive"), "the medium of a CD drive may be another")
}

// The TPM is the helper that receives or creates the socket of QEMU's TPM device.
func TestTheHelperThatIsTheTPM(t *testing.T) {
	t.Parallel()
	device := `option("-chardev", "socket", {"id": "c", "path": "/run/tpm"}), option("-tpmdev", "emulator", {"id": "tpm0", "chardev": "c"}),`
	for _, row := range []struct{ socket, options, helper, want string }{
		{"/run/tpm", device, "", "swtpm"},
		{"/run/other", device, "", ""},
		{"/run/other", device, `, ready = "/run/tpm"`, "swtpm"}, // it creates the socket
		{"/run/tpm", `option("-chardev", "socket,id=c,path=/run/tpm"), option("-tpmdev", "emulator,id=tpm0,chardev=c"),`, "", "swtpm"},
		{"/run/tpm", "", "", ""},
		{"/run/other", "", `, role = "tpm"`, "swtpm"},
	} {
		p, err := launched(t, `
        options = [`+row.options+`],
        listeners = [listen("socket", "`+row.socket+`")],
        helpers = [process("passt", "/bin/passt", [], ready = "/run/passt"),
            process("swtpm", "/bin/swtpm", [option("--ctrl", None, {"fd": listen("socket", "`+row.socket+`")})]`+row.helper+`)],`)
		require.NoError(t, err)
		require.Equal(t, row.want, p.Helper(plan.RoleTPM), row)
	}
}

// A port is found by the socket at its other end, independent of its name.
func TestThePortOfASocket(t *testing.T) {
	t.Parallel()
	p, err := launched(t, `
        sockets = {"a": "/run/a,b", "c": "/run/c", "d": "/run/d", "e": "/run/e", "f": "/run/f", "g": "/run/g"},
        options = [
            option("-device", "virtio-serial-pci", {"id": "bus"}),
            option("-chardev", "socket", {"id": "one", "path": "/run/a,b", "server": True}),
            option("-device", "virtserialport", {"id": "channel7", "chardev": "one", "name": "x"}),
            option("-chardev", "socket", {"id": "two", "path": "/run/c"}),
            option("-device", "virtserialport", {"chardev": "two", "name": "y"}),
            option("-chardev", "socket", {"id": "three", "path": "/run/d"}),
            option("-chardev", "pty"),
            option("-device", "virtserialport", {"id": "channel9"}),
            option("-chardev", "socket", {"id": "four", "path": "/run/f"}),
            option("-device", "isa-serial", {"id": "serial0", "chardev": "four"}),
        ],
        ports = {"g": "channel9"},`)
	require.NoError(t, err)
	require.Equal(t, strings.TrimSpace(`
a /run/a,b port=channel7
c /run/c
d /run/d
e /run/e
f /run/f
g /run/g port=channel9`), lines(p, "socket"), "c: a port without an id is not reported; d: no port; e: no socket; f: of another kind")
}
