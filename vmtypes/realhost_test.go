package vmtypes_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/authoring/sample"
	"vmop/vmspec"
	"vmop/vmtypes"
	"vmop/vmtypes/plan"
)

// sandbox is a folder with real files for an imagined machine.
type sandbox struct {
	t   *testing.T
	dir string
}

func newSandbox(t *testing.T) sandbox {
	t.Helper()
	dir, err := os.MkdirTemp("", "vm") // short, because paths of sockets are limited
	require.NoError(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	for _, name := range []string{"data", "data/" + plan.TPMFolder, "run", "images"} {
		require.NoError(t, os.Mkdir(filepath.Join(dir, name), 0o700))
	}
	return sandbox{t, dir}
}

func (s sandbox) path(parts ...string) string {
	return filepath.Join(append([]string{s.dir}, parts...)...)
}

// plan returns the plan of a golden with real files and without KVM.
func (s sandbox) plan(g *sample.Sample) *plan.Plan {
	s.t.Helper()
	facts := g.Host
	facts.DataDir, facts.RuntimeDir, facts.KVM = s.path("data"), s.path("run"), false
	if facts.CloudInitImage != "" {
		facts.CloudInitImage = s.image("cloud-init.img", "raw")
	}
	if facts.SysprepImage != "" {
		facts.SysprepImage = s.image("sysprep.img", "raw")
	}
	for i, image := range facts.DirectIO {
		facts.DirectIO[i] = s.path("images", filepath.Base(image))
	}
	host := facts.Host()
	imagined := host.Exists
	host.Exists = func(path string) bool {
		if strings.HasPrefix(path, "/dev/") || strings.HasPrefix(path, s.dir) {
			_, err := os.Stat(path)
			return err == nil
		}
		return imagined(path)
	}
	spec := s.spec(g.VM)
	if spec.Accelerator == vmspec.AcceleratorKVM {
		host.KVM = true // the only way to enable it
	}
	library, err := vmtypes.Open(examples)
	require.NoError(s.t, err)
	defer library.Close()
	vmType, err := library.Load(s.t.Context(), g.Type)
	require.NoError(s.t, err)
	p, err := vmType.Launch(s.t.Context(), spec, host)
	require.NoError(s.t, err)
	p.QEMU.Executable = qemuOf(s.t, p)
	s.firmware(p)
	s.blockDevices(p)
	return p
}

// spec creates the images in a vm section, and returns the section with their paths.
func (s sandbox) spec(spec vmspec.Spec) vmspec.Spec {
	spec = spec.WithDefaults() // a copy
	for i := range spec.Drives {
		d := &spec.Drives[i]
		if d.File != "" {
			d.File = s.image(filepath.Base(d.File), d.Format)
		}
		if d.Device != "" {
			d.Device = s.image(filepath.Base(d.Device), "raw")
		}
	}
	if cd, given := spec.Options["virtioDrivers"].(string); given {
		spec.Options["virtioDrivers"] = s.image(filepath.Base(cd), "raw")
	}
	if k := spec.Kernel; k != nil {
		k.Image = s.kernel()
		if k.Initrd != "" {
			k.Initrd = s.image(filepath.Base(k.Initrd), "raw")
		}
	}
	if spec.SerialConsole.Log != "" {
		spec.SerialConsole.Log = s.path("images", filepath.Base(spec.SerialConsole.Log))
	}
	return spec
}

// image creates an empty image of 1 MiB.
func (s sandbox) image(name, format string) string {
	s.t.Helper()
	path := s.path("images", name)
	if format == "qcow2" {
		s.run("qemu-img", "qemu-utils", "create", "-q", "-f", "qcow2", path, "1M")
		return path
	}
	require.NoError(s.t, os.WriteFile(path, make([]byte, vmspec.MiB), 0o600))
	return path
}

// kernel creates a file that QEMU accepts as a Linux kernel: the boot sector of a bzImage (Linux,
// Documentation/arch/x86/boot.rst) without a kernel.
func (s sandbox) kernel() string {
	s.t.Helper()
	image := make([]byte, 64<<10)
	copy(image[0x1fe:], "\x55\xaa")
	copy(image[0x202:], "HdrS\x0c\x02")  // protocol 2.12
	copy(image[0x211:], "\x01")          // loaded high
	copy(image[0x22c:], "\xff\xff\xff7") // highest address of an initrd
	copy(image[0x238:], "\xff\x07")      // longest command line
	path := s.path("images", "vmlinuz")
	require.NoError(s.t, os.WriteFile(path, image, 0o600))
	return path
}

// firmware replaces the imagined firmware with this computer's OVMF of the same kind, and copies the variables like the
// runner.
func (s sandbox) firmware(p *plan.Plan) {
	s.t.Helper()
	for _, file := range p.Files {
		code, variables := s.flash(file.Kind, isARM(p))
		require.NoError(s.t, os.Rename(variables, file.To))
		for i, o := range p.QEMU.Args {
			if o.ID() == "fw-rom-file" {
				setProperty(&p.QEMU.Args[i], "filename", code)
			}
		}
	}
}

// flash returns copies of the firmware and the variables of a kind.
func (s sandbox) flash(kind string, arm bool) (code, variables string) {
	s.t.Helper()
	code, variables = s.path("images", "code"), s.path("images", "vars")
	names := map[string][2]string{
		"uefi-2m": {"CODE.fd", "VARS.fd"}, "uefi-4m": {"CODE_4M.fd", "VARS_4M.fd"},
		"secure-2m": {"CODE.secboot.fd", "VARS.ms.fd"}, "secure-4m": {"CODE_4M.secboot.fd", "VARS_4M.ms.fd"},
	}
	dir, debianPackage := "/usr/share/OVMF/OVMF_", "ovmf"
	if arm {
		names = map[string][2]string{"uefi-4m": {"CODE.fd", "VARS.fd"}, "secure-4m": {"CODE.ms.fd", "VARS.ms.fd"}}
		dir, debianPackage = "/usr/share/AAVMF/AAVMF_", "qemu-efi-aarch64"
	}
	raw, isQcow2 := strings.CutSuffix(kind, "-qcow2")
	pair, known := names[raw]
	require.True(s.t, known, "firmware of kind %s", kind)
	if _, err := os.Stat(dir + pair[0]); err != nil {
		pair = names[strings.TrimSuffix(raw, "2m")+"4m"] // Debian 13 only contains these
	}
	for i, to := range []string{code, variables} {
		format := "raw"
		if isQcow2 {
			format = "qcow2"
		}
		_, err := os.Stat(dir + pair[i])
		require.NoError(s.t, err, "install the Debian package %s", debianPackage)
		s.run("qemu-img", "qemu-utils", "convert", "-f", "raw", "-O", format, dir+pair[i], to)
	}
	return code, variables
}

// blockDevices replaces block devices with files, because a test cannot create block devices everywhere.
func (s sandbox) blockDevices(p *plan.Plan) {
	for i, o := range p.QEMU.Args {
		if driver, _ := o.Get("driver"); driver == "host_device" {
			setProperty(&p.QEMU.Args[i], "driver", "file")
		}
	}
}

func setProperty(o *plan.Option, key, value string) {
	changed := append([]plan.Property{}, o.Properties...)
	for i := range changed {
		if changed[i].Key == key {
			changed[i].Value = value
		}
	}
	o.Properties = changed
}

func (s sandbox) run(name, debianPackage string, args ...string) {
	s.t.Helper()
	out, err := exec.CommandContext(s.t.Context(), program(s.t, name, debianPackage), args...).CombinedOutput()
	require.NoError(s.t, err, "%s %v: %s", name, args, out)
}

// qemuOf returns this machine's QEMU for the guest's architecture.
func qemuOf(t *testing.T, p *plan.Plan) string {
	t.Helper()
	if isARM(p) {
		return program(t, "qemu-system-aarch64", "qemu-system-arm")
	}
	return program(t, "qemu-system-x86_64", "qemu-system-x86")
}

func isARM(p *plan.Plan) bool { return p.GuestArchitecture() == "aarch64" }

func program(t *testing.T, name, debianPackage string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		t.Fatalf("%s is missing: install the Debian package %s", name, debianPackage)
	}
	return path
}
