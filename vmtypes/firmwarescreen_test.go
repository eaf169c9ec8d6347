package vmtypes_test

import (
	"bytes"
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"vmop/authoring/sample"
	"vmop/test/guest"
	"vmop/test/tier"
	"vmop/test/wait"
	"vmop/vmspec"
	"vmop/vmtypes/plan"
)

// windowsSpec returns a machine for Windows with little memory and a console in a file.
func windowsSpec(log string) vmspec.Spec {
	return vmspec.Spec{
		Name: "windows", UUID: sample.UUID, Accelerator: vmspec.AcceleratorTCG,
		MaximumRAM: 512 * vmspec.MiB, Network: []vmspec.Network{},
		Display: &vmspec.Display{VNC: &vmspec.VNC{}}, SerialConsole: &vmspec.SerialConsole{Log: log},
	}
}

// Without Windows, the firmware reports that it finds no system to start, and its screen shows a picture with both
// video cards.
func TestWindowsReachesItsFirmwareScreen(t *testing.T) {
	tier.Deep(t)
	t.Parallel()
	for _, video := range []string{"virtio", "qxl"} {
		t.Run(video, func(t *testing.T) {
			t.Parallel()
			s := newSandbox(t)
			log := s.path("images", "console.log")
			spec := windowsSpec(log)
			spec.Drives = []vmspec.Drive{{File: s.image("disk.img", "raw"), Bootindex: new(0)}}
			spec.Options = map[string]any{"video": video, "diskBus": "sata"}
			p := s.launchType("windows", spec, sample.HostFacts{})
			q, _ := boot(t, p, log, "BdsDxe: ")
			picture := s.path("images", "screen.ppm")
			deadline := wait.Deadline()
			for colours := 0; colours < 2; {
				require.True(t, time.Now().Before(deadline), "the screen stays blank")
				q.ask("screendump", map[string]string{"filename": picture}, nil)
				colours = distinctColours(t, picture)
			}
			q.quits()
		})
	}
}

// distinctColours counts the colors in a picture (ppm(5), as QEMU writes it).
func distinctColours(t *testing.T, file string) int {
	t.Helper()
	data, err := os.ReadFile(file)
	require.NoError(t, err)
	head := bytes.SplitN(data, []byte("\n"), 4) // P6, width and height, largest value
	require.Len(t, head, 4)
	require.Equal(t, "P6", string(head[0]))
	seen := map[[3]byte]bool{}
	for pixels := head[3]; len(pixels) >= 3; pixels = pixels[3:] {
		seen[[3]byte(pixels)] = true
	}
	return len(seen)
}

// The firmware has enabled secure boot, and has measured the started system into the TPM. The test starts Linux instead
// of Windows to check this.
func TestWindowsFirmwareHasSecureBootAndTPM(t *testing.T) {
	tier.Deep(t)
	t.Parallel()
	image := guest.Tiny(t)
	s := newSandbox(t)
	log := s.path("images", "console.log")
	spec := windowsSpec(log)
	spec.Kernel = &vmspec.Kernel{
		Image: image.Kernel, Initrd: image.Initrd, CommandLine: guest.CommandLine,
	}
	p := s.launchType("windows", spec, sample.HostFacts{})
	q, console := boot(t, p, log, "READY")
	require.Contains(t, console, "firmware efi=1 secureboot=1")
	_, pcr0, found := strings.Cut(console, "tpm version=2 code=0x00000000 ")
	require.True(t, found, console)
	require.Regexp(t, `^clock=\d+ resets=\d+ restarts=\d+ pcr0=[0-9A-F]{64}\r?\n`, pcr0)
	require.NotContains(t, pcr0, "pcr0="+strings.Repeat("0", 64), "what the firmware measured")
	q.ask("quit", nil, nil)
	q.refusal()
}

// QEMU supports every enlightenment of the type. They can only be used with KVM.
func TestQEMUKnowsEnlightenments(t *testing.T) {
	t.Parallel()
	s := newSandbox(t)
	spec := windowsSpec(s.path("images", "console.log"))
	q := start(t, s.launchType("windows", spec, sample.HostFacts{}))
	var properties []struct{ Name string }
	q.ask("qom-list-properties", map[string]string{"typename": "max-x86_64-cpu"}, &properties)
	known, err := json.Marshal(properties)
	require.NoError(t, err)
	q.quits()

	spec.Accelerator = vmspec.AcceleratorKVM
	words := cpuWords(s.launchType("windows", spec, sample.HostFacts{KVM: true}))
	require.Equal(t, "host", words[0])
	require.Len(t, words, 13)
	for _, word := range words[1:] {
		name, _, _ := strings.Cut(word, "=")
		require.Contains(t, string(known), `{"Name":"`+name+`"}`)
	}
}

// cpuWords returns the model and the features of -cpu.
func cpuWords(p *plan.Plan) []string {
	for _, o := range p.QEMU.Args {
		if o.Flag == "-cpu" {
			return strings.Split(o.Value, ",")
		}
	}
	return nil
}
