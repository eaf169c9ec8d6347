package prepare

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/test/folder"
	"vmop/vmtypes"
)

const secureDescriptor = `{
  "description": "UEFI with secure boot",
  "interface-types": ["uefi"],
  "mapping": {
    "device": "flash",
    "executable": {"filename": "/fw/CODE.secboot.qcow2", "format": "qcow2"},
    "nvram-template": {"filename": "/fw/VARS.ms.fd", "format": "raw"}
  },
  "targets": [{"architecture": "x86_64", "machines": ["pc-q35-*"]}, {"architecture": "i386", "machines": ["pc-i440fx-*"]}],
  "features": ["secure-boot", "requires-smm"],
  "tags": []
}`

func flash(description string) string {
	return `{"description": "` + description + `", "mapping": {"device": "flash"}}`
}

// Firmware descriptors follow the order of precedence in QEMU's docs/interop/firmware.json.
func TestFirmwareDescriptorsInTheOrderOfQEMU(t *testing.T) {
	t.Parallel()
	etc, share := t.TempDir(), t.TempDir()
	folder.Fill(t, share, folder.Files{
		"60-plain.json":  flash("plain of the distribution"),
		"50-secure.json": secureDescriptor,
		"70-hidden.json": flash("hidden"),
		"40-memory.json": `{"description": "no flash", "mapping": {"device": "memory", "filename": "/fw/snp.fd"},
			"features": ["amd-sev-snp"]}`,
		"35-kernel.json":   `{"description": "none", "mapping": {"device": "kernel", "filename": "/fw/kernel"}}`,
		"30-broken.json":   `{"description": `,
		"20-readme.txt":    "no descriptor",
		"90-last.json":     flash("last"),
		"10-replaced.json": flash("replaced"),
	})
	folder.Fill(t, etc, folder.Files{
		"70-hidden.json":   "",
		"10-replaced.json": flash("replacement"),
		"55-own.json":      flash("the administrator's"),
	})
	require.NoError(t, os.Mkdir(filepath.Join(share, "80-folder.json"), 0o700))

	var names []string
	list := readFirmware([]string{etc, share})
	for _, d := range list {
		names = append(names, d.Description)
	}
	require.Equal(t, []string{
		"replacement", "no flash", "UEFI with secure boot", "the administrator's",
		"plain of the distribution", "last",
	}, names)
	require.Equal(t, vmtypes.FirmwareDescriptor{
		Description: "UEFI with secure boot",
		Executable:  "/fw/CODE.secboot.qcow2", Format: "qcow2",
		Vars: "/fw/VARS.ms.fd", VarsFormat: "raw",
		Architecture: []string{"x86_64", "i386"},
		Machines:     []string{"pc-q35-*", "pc-i440fx-*"},
		Features:     []string{"secure-boot", "requires-smm"},
	}, list[2])
	require.Equal(t, vmtypes.FirmwareDescriptor{
		Description: "no flash", Executable: "/fw/snp.fd", Format: "raw", Features: []string{"amd-sev-snp"},
	}, list[1])
}

func TestNoFirmwareDescriptors(t *testing.T) {
	t.Parallel()
	require.Empty(t, readFirmware([]string{filepath.Join(t.TempDir(), "absent"), t.TempDir()}))
	require.Empty(t, readFirmware(nil))
}

func TestHostIsThisMachine(t *testing.T) {
	t.Parallel()
	host := ThisHost("/data", "/run")
	require.Equal(t, "/data", host.DataDir)
	require.Equal(t, "/run", host.RuntimeDir)
	require.Equal(t, qemuArch(runtime.GOARCH), host.Arch)
	require.True(t, host.Exists(t.TempDir()))
	require.False(t, host.Exists("/does/not/exist"))
	for goarch, arch := range map[string]string{"amd64": "x86_64", "arm64": "aarch64", "riscv64": "riscv64"} {
		require.Equal(t, arch, qemuArch(goarch))
	}
}

func TestFileModeOfAResource(t *testing.T) {
	t.Parallel()
	mode, err := fileMode("/dev/null")
	require.NoError(t, err)
	require.NotZero(t, mode&os.ModeCharDevice)
	_, err = fileMode("/does/not/exist")
	require.EqualError(t, err, "no such file or directory")
}

// An x86 CPU's features decide whether it supports virtualization. An unknown CPU counts as supported.
func TestVirtualizationOfCPUs(t *testing.T) {
	t.Parallel()
	const x86 = "cpu:type:x86,ven0000fam0006mod0055:feature:"
	require.False(t, lacksVirtualization(x86+",0000,0001,0080,0085,0086,\n"), "vmx")
	require.False(t, lacksVirtualization(x86+",0000,0001,00C0,00C2,00C3,\n"), "svm")
	require.True(t, lacksVirtualization(x86+",0000,0001,0080,00C0,0185,\n"))
	require.False(t, lacksVirtualization(""))
	require.False(t, lacksVirtualization("cpu:type:aarch64:feature:,0000,0001\n"))
	if runtime.GOARCH != "amd64" {
		return
	}
	alias, err := os.ReadFile(cpuAlias)
	require.NoError(t, err)
	cpuinfo, err := os.ReadFile("/proc/cpuinfo")
	require.NoError(t, err)
	require.Equal(t, !regexp.MustCompile(`(?m)^flags\s*:.* (vmx|svm)( |$)`).Match(cpuinfo),
		lacksVirtualization(string(alias)), "of this machine")
}

// A user without permission for KVM is shown how to obtain it.
func TestNoKVMForThisUser(t *testing.T) {
	t.Parallel()
	require.Equal(t, "open /dev/kvm: permission denied: add this user to the group kvm (usermod -aG kvm USER, then log in "+
		"again)", noKVM(&fs.PathError{Op: "open", Path: "/dev/kvm", Err: syscall.EACCES}))
	require.Equal(t, "open /dev/kvm: no such file or directory: load the kernel's module (sudo modprobe kvm_intel, or "+
		"kvm_amd), and enable virtualization in the firmware or, if this computer is a VM, in its hypervisor",
		noKVM(&fs.PathError{Op: "open", Path: "/dev/kvm", Err: syscall.ENOENT}))
}
