package vmtypes_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/tools/txtar"

	"vmop/vmspec"
	"vmop/vmtypes"
)

const tiny = `
load("disks.star", "disk")

def launch(vm, host):
    """A machine with nothing but disks."""
    swtpm = listen("swtpm", host.runtimeDir + "/swtpm-sock")
    return combine(
        part(
            executable = "/usr/bin/qemu-system-x86_64",
            machine = {"type": "q35", "usb": False, "smm": None},
            options = [
                option("-m", "%dM" % (vm.maximumRam // (1 << 20))),
                option("-append", "quiet,a=b"),
                None,
                [option("-chardev", "null", {"id": "tpm", "fd": swtpm})],
            ],
            listeners = [swtpm],
            sockets = {"console": host.runtimeDir + "/console.sock"},
        ),
        None,
        [disk(n, d) for n, d in enumerate(vm.drives)],
    )
`

const disks = `
def disk(n, drive):
    return part(options = [option("-drive", None, {"id": "disk%d" % n, "file": drive.file, "bootindex": drive.bootindex})])
`

func tinyFiles() []txtar.File {
	return []txtar.File{{Name: "tiny.star", Data: []byte(tiny)}, {Name: "disks.star", Data: []byte(disks)}}
}

func loadTiny(t *testing.T) *vmtypes.Type {
	t.Helper()
	library, err := vmtypes.Open(folder(t, tinyFiles()))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, library.Close()) })
	vmType, err := library.Load(t.Context(), "tiny")
	require.NoError(t, err)
	return vmType
}

func TestPlanIsTheSumOfTheParts(t *testing.T) {
	t.Parallel()
	spec := smallVM()
	spec.Drives[0].File = "/images/a,b.img"
	p, err := loadTiny(t).Launch(t.Context(), spec, emptyHost())
	require.NoError(t, err)
	require.Equal(t, `type tiny
listen swtpm /run/vm/swtpm-sock
qemu /usr/bin/qemu-system-x86_64
    -machine q35,usb=off
    -m 256M
    -append quiet,a=b
    -chardev null,id=tpm,fd=<swtpm>
    -drive id=disk0,file=/images/a,,b.img
socket console /run/vm/console.sock
drive vm.drives[0] nodes=disk0 file=/images/a,b.img
`, p.Text())
	require.Equal(t, []string{
		"-machine", "q35,usb=off", "-m", "256M", "-append", "quiet,a=b",
		"-chardev", "null,id=tpm,fd=3", "-drive", "id=disk0,file=/images/a,,b.img",
	}, p.QEMU.Argv())
}

func TestEveryOptionKnowsWhereItWasMade(t *testing.T) {
	t.Parallel()
	p, err := loadTiny(t).Launch(t.Context(), smallVM(), emptyHost())
	require.NoError(t, err)
	last := p.QEMU.Args[len(p.QEMU.Args)-1]
	require.Equal(t, "disks.star:3 disk < tiny.star:21 launch", last.Origin.String())
	require.Contains(t, p.Why(), "# tiny.star:12 launch")
}

func TestMachineAliasIsPinned(t *testing.T) {
	t.Parallel()
	host := emptyHost()
	host.Machines = map[string]string{"q35": "pc-q35-7.2"}
	p, err := loadTiny(t).Launch(t.Context(), smallVM(), host)
	require.NoError(t, err)
	require.Equal(t, "pc-q35-7.2", p.Machine().Value)
}

func TestArchiveKeepsTheTypeWhenTheLibraryChanges(t *testing.T) {
	t.Parallel()
	dir := folder(t, tinyFiles())
	library, err := vmtypes.Open(dir)
	require.NoError(t, err)
	defer library.Close()
	vmType, err := library.Load(t.Context(), "tiny")
	require.NoError(t, err)
	archive, err := vmType.Archive()
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "disks.star"), []byte("def disk(n, drive):\n    return None\n"),
		0o600))

	pinned, err := vmtypes.LoadArchive(t.Context(), archive)
	require.NoError(t, err)
	before, err := vmType.Launch(t.Context(), smallVM(), emptyHost())
	require.NoError(t, err)
	after, err := pinned.Launch(t.Context(), smallVM(), emptyHost())
	require.NoError(t, err)
	require.Equal(t, before.Text(), after.Text())
	require.Equal(t, "tiny", pinned.Name())
	again, err := pinned.Archive()
	require.NoError(t, err)
	require.Equal(t, string(archive), string(again))
}

func TestArchiveOfSomethingElseIsRefused(t *testing.T) {
	t.Parallel()
	for name, data := range map[string]string{
		"empty":      "",
		"text":       "hello\n",
		"no modules": "VM type x.star\n",
	} {
		_, err := vmtypes.LoadArchive(t.Context(), []byte(data))
		require.Error(t, err, name)
	}
}

func TestModuleWithATxtarMarkerIsNotPinnedWrongly(t *testing.T) {
	t.Parallel()
	marker := "def launch(vm, host):\n    return part(executable = \"/x\")\n\nX = \"\"\"\n-- other.star --\n\"\"\"\n"
	library, err := vmtypes.Open(folder(t, []txtar.File{{Name: "odd.star", Data: []byte(marker)}}))
	require.NoError(t, err)
	defer library.Close()
	vmType, err := library.Load(t.Context(), "odd")
	require.NoError(t, err)
	_, err = vmType.Archive()
	require.ErrorContains(t, err, "-- name --")
}

func TestCustomFolderCannotBeLeft(t *testing.T) {
	t.Parallel()
	dir := folder(t, tinyFiles())
	secret := filepath.Join(t.TempDir(), "secret.star")
	require.NoError(t, os.WriteFile(secret, []byte("x = 1\n"), 0o600))
	require.NoError(t, os.Symlink(secret, filepath.Join(dir, "link.star")))
	library, err := vmtypes.Open(dir)
	require.NoError(t, err)
	defer library.Close()
	for _, name := range []string{"link", "../secret", "a/b", ""} {
		_, err = library.Load(t.Context(), name)
		require.Error(t, err, name)
	}
}

func TestAbsolutePathIsAType(t *testing.T) {
	t.Parallel()
	dir := folder(t, tinyFiles())
	library, err := vmtypes.Open("")
	require.NoError(t, err)
	vmType, err := library.Load(t.Context(), filepath.Join(dir, "tiny.star"))
	require.NoError(t, err)
	require.Equal(t, "tiny", vmType.Name())
}

func TestStockTypesCannotBeShadowed(t *testing.T) {
	t.Parallel()
	dir := folder(t, []txtar.File{
		{Name: "standard.star", Data: []byte("fail(\"shadowed\")\n")},
		{Name: "mine.star", Data: []byte("x = 1\n")},
	})
	library, err := vmtypes.Open(dir)
	require.NoError(t, err)
	defer library.Close()
	require.Equal(t, []string{"arm64", "cloud", "microvm", "mine", "pc", "standard", "windows"}, library.Names())
	_, err = library.Load(t.Context(), "standard")
	require.NoError(t, err)
	_, err = library.Load(t.Context(), "standrad")
	require.ErrorContains(t, err, "did you mean standard?")
}

func TestDeadlineEndsAnEvaluation(t *testing.T) {
	t.Parallel()
	dir := folder(t, []txtar.File{{Name: "slow.star", Data: []byte("def launch(vm, host):\n    for i in " +
		"range(1000000000):\n        pass\n")}})
	ctx, cancel := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
	defer cancel()
	_, err := launch(ctx, dir, "slow", nil)
	require.ErrorContains(t, err, "took too long")
}

func TestOneTypeServesManyGoroutines(t *testing.T) {
	t.Parallel()
	vmType := loadTiny(t)
	want, err := vmType.Launch(t.Context(), smallVM(), emptyHost())
	require.NoError(t, err)
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			got, err := vmType.Launch(t.Context(), smallVM(), emptyHost())
			if err != nil || got.Why() != want.Why() {
				t.Errorf("got another plan: %v", err)
			}
		})
	}
	wg.Wait()
}

// Every key of the vm section is an attribute of vm with the same name, except the keys that only concern the runner.
func TestEveryKeyIsVisible(t *testing.T) {
	t.Parallel()
	var source strings.Builder
	source.WriteString("options = {\"ports\": attr.list(attr.int())}\n\ndef launch(vm, host):\n")
	var keys func(prefix string, typ reflect.Type)
	keys = func(prefix string, typ reflect.Type) {
		for i := range typ.NumField() {
			f := typ.Field(i)
			path := prefix + "." + f.Tag.Get("yaml")
			if f.Tag.Get("vmtype") == "-" {
				continue
			}
			source.WriteString("    " + path + "\n")
			switch ft := f.Type; {
			case ft.Kind() == reflect.Pointer && ft.Elem().Kind() == reflect.Struct:
				keys(path, ft.Elem())
			case ft.Kind() == reflect.Slice && ft.Elem().Kind() == reflect.Struct:
				keys(path+"[0]", ft.Elem())
			}
		}
	}
	keys("vm", reflect.TypeFor[vmspec.Spec]())
	source.WriteString("    return part(executable = \"/bin/qemu\", options = [option(\"-x\", " +
		"str(vm.options.ports))])\n")
	dir := folder(t, []txtar.File{{Name: "all.star", Data: []byte(source.String())}})
	library, err := vmtypes.Open(dir)
	require.NoError(t, err)
	defer library.Close()
	vmType, err := library.Load(t.Context(), "all")
	require.NoError(t, err)

	spec := smallVM()
	spec.Options = map[string]any{"ports": []any{80, 443}}
	yes := true
	spec.Kernel, spec.SerialConsole = &vmspec.Kernel{}, &vmspec.SerialConsole{Enabled: &yes}
	spec.Display = &vmspec.Display{Spice: &vmspec.Spice{}, VNC: &vmspec.VNC{}}
	spec.Network = []vmspec.Network{{Ports: []vmspec.PortForward{{}}, AllPorts: &vmspec.AllPorts{}}}
	spec.Drives[0].Limits = &vmspec.DiskLimits{}
	spec.Network[0].Filter = new(true)
	spec.Network[0].Lease = &vmspec.Lease{Nameservers: &vmspec.Nameservers{}, Routes: []vmspec.Route{{}}}
	p, err := vmType.Launch(t.Context(), spec, emptyHost())
	require.NoError(t, err)
	require.Contains(t, p.Text(), "-x (80, 443)")
}

// A type that is older than declared options receives all options unchanged.
func TestArchiveFromBeforeOptionsWereDeclared(t *testing.T) {
	t.Parallel()
	source := "def launch(vm, host):\n    return part(executable = \"/bin/qemu\", options = [option(\"-x\", " +
		"vm.options.get(\"asset\", \"none\"))])\n"
	archive := "VM type old.star\nThis VM keeps this version of its type until updateVmType asks for a newer " +
		"one.\n\n-- old.star --\n" + source
	old, err := vmtypes.LoadArchive(t.Context(), []byte(archive))
	require.NoError(t, err)
	spec := smallVM()
	spec.Options = map[string]any{"asset": "R2-D2", "anything": []any{1}}
	p, err := old.Launch(t.Context(), spec, emptyHost())
	require.NoError(t, err)
	require.Equal(t, []string{"-x", "R2-D2"}, p.QEMU.Argv())
	again, err := old.Archive()
	require.NoError(t, err)
	require.Equal(t, archive, string(again), "it stays as old as it is")

	new, err := vmtypes.LoadArchive(t.Context(), []byte(strings.Replace(archive, "\n", "\nAPI version 1\n", 1)))
	require.NoError(t, err)
	_, err = new.Launch(t.Context(), spec, emptyHost())
	require.ErrorContains(t, err, "vm.options.asset: the VM type old has no such option (it takes none)")
	_, err = vmtypes.LoadArchive(t.Context(), []byte(strings.Replace(archive, "\n", "\nAPI version one\n", 1)))
	require.ErrorContains(t, err, `the second line is "API version one", but must be "API version " and a number`)
}

// An older runner does not start a VM with the pinned type of a newer runner, because it could misunderstand the type.
func TestArchiveOfANewerVersion(t *testing.T) {
	t.Parallel()
	const modules = "\n-- x.star --\ndef launch(vm, host):\n    return part(executable = \"/bin/qemu\")\n"
	_, err := vmtypes.LoadArchive(t.Context(), []byte(fmt.Sprintf("VM type x.star\nAPI version %d\n%s",
		vmtypes.APIVersion+1, modules)))
	require.EqualError(t, err, "the VM type was kept by a newer vmrunner, with version 2 of the language of VM types; "+
		"this vmrunner supports version 1: run the VM with the newer vmrunner")
	loaded, err := vmtypes.LoadArchive(t.Context(), []byte("VM type x.star\n"+modules+"api_version = 1\n"))
	require.NoError(t, err)
	archive, err := loaded.Archive()
	require.NoError(t, err)
	require.Contains(t, string(archive), "VM type x.star\nAPI version 1\n", "what the module declares counts")
}
