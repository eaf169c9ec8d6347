package runner_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/runner/prepare"
	"vmop/vmstatus"
)

// observe returns a VM of the standard type that runs and can be asked.
func observe(t *testing.T, section ...string) *vm {
	t.Helper()
	v := newVM(t, "wrapped")
	firmware := []string{"firmware: bios"}
	for _, line := range section {
		if strings.HasPrefix(line, "firmware:") {
			firmware = nil
		}
	}
	network := []string{"network: []"}
	v.configure("wrapped", nil, append(append(append(firmware, network...), "accelerator: tcg", v.observed(),
		"powerdownTimeout: 0"), section...)...)
	v.runs()
	return v
}

// ends ends the VM, well.
func (v *vm) ends() {
	v.t.Helper()
	_, err := v.stop()
	require.NoError(v.t, err)
	v.nothingLeft()
}

// What the vm section says of CPUs and memory is what QEMU has when the guest
// begins to run.
func TestCPUsAndMemory(t *testing.T) {
	t.Parallel()
	tests := []struct {
		what           string
		section        []string
		used, possible int
		sockets        int
		bytes          int64
	}{
		{"nothing is said", nil, 1, 1, 1, 1 << 30},
		{"one of one", []string{"maximumCpus: 1", "currentCpus: 1", "maximumRam: 1073741824"}, 1, 1, 1, 1 << 30},
		{
			"some of many",
			[]string{"maximumCpus: 4", "currentCpus: 3", "maximumRam: 2 GiB", "currentRam: 1 GiB"},
			3, 4,
			1, 2 << 30,
		},
		{
			"sockets and cores",
			[]string{"sockets: 2", "coresPerDie: 2", "currentCpus: 3", "maximumRam: 512Mi"},
			3, 4, 2,
			512 << 20,
		},
		{"all of a topology", []string{
			"maximumCpus: 8", "sockets: 2", "diesPerSocket: 2", "coresPerDie: 1",
			"threadsPerCore: 2",
		}, 8, 8, 2, 1 << 30},
	}
	for _, tt := range tests {
		t.Run(tt.what, func(t *testing.T) {
			t.Parallel()
			v := observe(t, tt.section...)
			var status struct{ Status string }
			v.ask(&status, "query-status", nil)
			require.Equal(t, "running", status.Status)
			var cpus []struct {
				Path  string `json:"qom-path"`
				Props struct {
					Socket int `json:"socket-id"`
				}
			}
			v.ask(&cpus, "query-hotpluggable-cpus", nil)
			used, sockets := 0, map[int]bool{}
			for _, c := range cpus {
				sockets[c.Props.Socket] = true
				if c.Path != "" {
					used++
				}
			}
			require.Equal(t, tt.used, used)
			require.Len(t, cpus, tt.possible)
			require.Len(t, sockets, tt.sockets)
			var memory struct {
				Base int64 `json:"base-memory"`
			}
			v.ask(&memory, "query-memory-size-summary", nil)
			require.Equal(t, tt.bytes, memory.Base)
			ballooned := v.log.find("QMP command", "command", `balloon {"value":1073741824}`)
			require.Equal(t, strings.Contains(strings.Join(tt.section, " "), "currentRam"), ballooned != nil)
			v.ends()
		})
	}
}

// An explicit uuid is used and not kept; without one the VM keeps its own.
func TestUUID(t *testing.T) {
	t.Parallel()
	v := observe(t)
	asked := func() string {
		var answer struct{ UUID string }
		v.ask(&answer, "query-uuid", nil)
		return answer.UUID
	}
	own := asked()
	require.Equal(t, own+"\n", v.read("data", "uuid.txt"))
	v.ends()
	const explicit = "6ba7b810-9dad-11d1-80b4-00c04fd430c8"
	v.configure("wrapped", nil, "uuid: "+explicit, "accelerator: tcg", "firmware: bios", "network: []", v.observed(),
		"powerdownTimeout: 0")
	v.log = newLogbook()
	v.runs()
	require.Equal(t, explicit, asked())
	require.Equal(t, own+"\n", v.read("data", "uuid.txt"))
	v.ends()
}

// Disks and CD drives are there, and in the order of booting.
func TestDrives(t *testing.T) {
	t.Parallel()
	v := newVM(t, "wrapped")
	for _, name := range []string{"disk.img", "more.img", "cd.iso"} {
		require.NoError(t, os.WriteFile(v.path(name), make([]byte, 1<<20), 0o600))
	}
	v.configure("wrapped", nil, "accelerator: tcg", "firmware: bios", "network: []", v.observed(),
		"powerdownTimeout: 0",
		"drives:",
		"  - {file: disk.img, bootindex: 2}", // relative to the configuration
		"  - {resource: more.img, readOnly: true}",
		"  - {type: ide-cd, file: cd.iso, bootindex: 1}",
		"  - {type: ide-cd}")
	v.runs()
	var blocks []struct {
		Inserted *struct {
			Image struct{ Filename string }
			RO    bool
		}
		Removable bool
	}
	v.ask(&blocks, "query-block", nil)
	var found []string
	for _, b := range blocks {
		text := "empty"
		if b.Inserted != nil {
			text = fmt.Sprintf("%s ro=%t", strings.TrimPrefix(b.Inserted.Image.Filename, v.dir+"/"), b.Inserted.RO)
		}
		found = append(found, fmt.Sprintf("%s removable=%t", text, b.Removable))
	}
	require.ElementsMatch(t, []string{
		"disk.img ro=false removable=false", "more.img ro=true removable=false",
		"cd.iso ro=true removable=true", "empty removable=true",
	}, found)
	v.ends()
}

// The firmware's variables are the guest's own, and fit the firmware.
func TestFirmwareVariables(t *testing.T) {
	t.Parallel()
	v := newVM(t, "standard")
	start := func(firmware string) string {
		v.configure("standard", nil, "accelerator: tcg", "firmware: "+firmware, "network: []", "powerdownTimeout: 0")
		v.onPaused = func(context.Context, *prepare.VM) error { return errEnough }
		v.start()
		_, err := v.wait()
		require.ErrorIs(t, err, errEnough)
		v.nothingLeft()
		return v.read("data", "fw-vars.fd")
	}
	fresh := start("uefi-4m")
	require.NotEmpty(t, fresh)
	changed := "guest" + fresh[5:]
	require.NoError(t, os.WriteFile(v.path("data", "fw-vars.fd"), []byte(changed), 0o600))
	require.True(t, changed == start("uefi-4m"), "the guest's variables survive")

	secure := start("secure-4m")
	require.False(t, secure == changed)
	r := v.log.await(t, v.ended, "file of another kind set aside")
	kept, err := os.ReadFile(fmt.Sprint(r["kept"]))
	require.NoError(t, err)
	require.True(t, changed == string(kept), "nothing of the guest's is thrown away")
}

// A data directory of the original system has the same machine in it: its identity,
// the firmware's variables, what its TPM keeps.
func TestDataOfTheOriginal(t *testing.T) {
	t.Parallel()
	v := newVM(t, "standard", "accelerator: tcg", "firmware: uefi-4m", "useTpm: true", "network: []",
		"powerdownTimeout: 0")
	var uuid string
	start := func() {
		v.onPaused = func(context.Context, *prepare.VM) error {
			uuid = value(arguments(v.qemu()), "-uuid")
			return errEnough
		}
		v.start()
		_, err := v.wait()
		require.ErrorIs(t, err, errEnough)
		v.nothingLeft()
	}
	start()
	variables := "guest" + v.read("data", "fw-vars.fd")[5:]
	secrets := v.read("data", "tpm2-00.permall")
	require.NoError(t, os.RemoveAll(v.path("data")))
	require.NoError(t, os.MkdirAll(v.path("data", "cloud-init"), 0o755))
	const own = "6ba7b810-9dad-11d1-80b4-00c04fd430c8"
	for name, text := range map[string]string{
		"uuid.txt": own + "\n", "fw-vars.fd": variables, "tpm2-00.permall": secrets,
		"VM.ftl.yaml": "\"qemu\": {}\n", "cloud-init/user-data": "#cloud-config\n",
	} {
		require.NoError(t, os.WriteFile(v.path("data", name), []byte(text), 0o644))
	}
	start()
	require.Equal(t, own, uuid)
	require.True(t, variables == v.read("data", "fw-vars.fd"))
	require.True(t, secrets == v.read("data", "tpm2-00.permall"))
	require.True(t, secrets == v.read("data", "tpm", "tpm2-00.permall"))
	require.Equal(t, "\"qemu\": {}\n", v.read("data", "VM.ftl.yaml"), "the way back is open")
}

// The environment that a VM type asks for is QEMU's.
func TestEnvironment(t *testing.T) {
	t.Parallel()
	v := newVM(t, "bare", "options: {env: {VMOP_TEST: 'a value'}}")
	v.runs()
	environ, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", v.qemu()))
	require.NoError(t, err)
	words := bytes.Split(environ, []byte{0})
	require.Contains(t, words, []byte("VMOP_TEST=a value"))
	require.Contains(t, words, []byte("PATH="+os.Getenv("PATH")), "what is inherited stays")
	v.ends()
}

// A VM keeps the type it was first started with until an update is wanted.
func TestTypeIsPinned(t *testing.T) {
	t.Parallel()
	source, err := os.ReadFile("testdata/vmtypes/bare.star")
	require.NoError(t, err)
	v := newVM(t, "own")
	v.types = v.dir
	v.write("own.star", string(source))
	memory := func(update string) string {
		t.Helper()
		v.configure("own", []string{"updateVmType: " + update}, "options: {}")
		v.log = newLogbook()
		v.runs()
		argv := arguments(v.qemu())
		v.ends()
		return value(argv, "-m")
	}
	require.Equal(t, "64M", memory("false"))
	v.write("own.star", strings.ReplaceAll(string(source), `"64M"`, `"80M"`))
	require.Equal(t, "64M", memory("false"))
	require.Equal(t, "80M", memory("true"))
	v.write("own.star", "this is no Starlark")
	require.Equal(t, "80M", memory("false"), "the update is kept, too")
}

// What processes say is in the log, line by line, with their names.
func TestOutputOfProcessesIsLogged(t *testing.T) {
	t.Parallel()
	v := newVM(t, "bare", "options: {helper: {program: /bin/sh, arguments: [-c, 'echo one; echo two >&2; exec sleep 1000']}}")
	v.runs()
	v.log.await(t, v.ended, "output", "vm", "test", "process", "helper", "stream", "stdout", "line", "one")
	v.log.await(t, v.ended, "output", "vm", "test", "process", "helper", "stream", "stderr", "line", "two")
	v.signal(qemuProgram, 15)
	_, err := v.wait()
	require.NoError(t, err)
	v.logged("output", "process", "qemu", "stream", "stderr", "line", "terminating on signal 15")
	v.nothingLeft()
}

// Without a choice KVM runs the guest if it can; if it can't, that is reported.
func TestTheAcceleratorIsChosen(t *testing.T) {
	t.Parallel()
	v := newVM(t, "standard", "firmware: bios", "network: []")
	prepared, err := prepare.Plan(t.Context(), v.options().Options)
	require.NoError(t, err)
	v.runs()
	argv := strings.Join(arguments(v.qemu()), " ")
	const said = "without KVM the guest is slow; vm.accelerator: auto is tcg here, because "
	if why := prepared.Emulated(); why != "" {
		require.Contains(t, argv, "-accel tcg")
		v.logged(said + why)
		require.Contains(t, v.status().Condition(vmstatus.ConditionRunning).Message,
			"vm.accelerator: auto is tcg here, because "+why)
	} else {
		require.Contains(t, argv, "-accel kvm")
		require.NotContains(t, v.status().Condition(vmstatus.ConditionRunning).Message, "auto is tcg here")
	}
	v.ends()
}
