package record

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"vmop/internal/childprocess"
	"vmop/runner/config"
	"vmop/runner/machine"
	"vmop/runner/prepare"
	"vmop/vmstatus"
	"vmop/vmtypes/evaluate"
	"vmop/vmtypes/plan"
)

// The type of a running machine is read from the file next to its record, or from the record itself if an older runner
// wrote it.
func TestTheTypeOfAMachineThatRuns(t *testing.T) {
	t.Parallel()
	const vmType = "VM type mine.star\n\n-- mine.star --\n" +
		"def launch(vm, host):\n    \"\"\"As it was.\"\"\"\n    return part()\n"
	old, dir := Machine{VMType: vmType}, t.TempDir()
	p, err := old.pinnedType(dir)
	require.NoError(t, err)
	require.Equal(t, vmType, string(p.Archive))

	_, err = new(Machine).pinnedType(dir)
	require.ErrorIs(t, err, os.ErrNotExist)
	require.NoError(t, WriteType(&prepare.VM{RuntimeDir: dir, Pin: p}))
	for unpinned, kept := range map[bool]bool{true: false, false: true} {
		again, err := (&Machine{Unpinned: unpinned}).pinnedType(dir)
		require.NoError(t, err)
		require.Equal(t, p.Archive, again.Archive)
		require.Equal(t, kept, again.Kept)
	}
}

// FuzzRecord checks that reading any record returns an error or a machine that can be rebuilt with its plan.
func FuzzRecord(f *testing.F) {
	const vmType = "VM type mine.star\n\n-- mine.star --\n" +
		"def launch(vm, host):\n    return part(executable = \"/bin/true\")\n"
	good, err := json.Marshal(Machine{
		Version: version, ConfigFile: "/c.yaml", DataDir: "/data", Config: `"/Runner": {vmType: mine, vm: {name: web}}`,
		UUID: "0fb220b0-d73a-4b14-8a00-deb295bee377", VMType: vmType, Machines: map[string]string{"q35": "pc-q35-7.2"},
	})
	require.NoError(f, err)
	f.Add(good)
	for _, text := range []string{
		"", "null", "[]", "{}", `{"version": 1e999}`, `{"qemu": {"pid": -1}}`, `{"held": {}, "helpers": [null, {}]}`,
		strings.Replace(string(good), "web", `\u001b\u0000`, 1), strings.Replace(string(good), "/data", "", 1),
		strings.Replace(string(good), "return part", "return [0] * (1 << 40) #", 1), string(good) + string(good),
		string(good[:len(good)/2]), strings.Repeat("[", 20000),
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		dir := t.TempDir()
		require.NoError(t, os.WriteFile(filepath.Join(dir, prepare.RecordFile), text, 0o600))
		r, there, err := Read(dir)
		if err != nil {
			require.ErrorContains(t, err, dir)
			return
		}
		require.True(t, there)
		_ = r.CheckVersion(dir)
		vm, err := r.VM(t.Context(), dir)
		if err != nil {
			require.NotEmpty(t, err.Error())
			return
		}
		require.Equal(t, r.DataDir, vm.DataDir)
		r.DataDir = t.TempDir()
		require.NoError(t, r.Write(dir))
		again, _, err := Read(dir)
		require.NoError(t, err)
		same, err := again.VM(t.Context(), dir)
		require.NoError(t, err)
		require.Equal(t, vm.Spec, same.Spec)
	})
}

// A record of another version is refused because its fields may have another meaning.
func TestCheckVersion(t *testing.T) {
	t.Parallel()
	require.NoError(t, Machine{Version: version}.CheckVersion("/run/vm"))
	for _, other := range []int{0, version + 1} {
		err := Machine{Version: other}.CheckVersion("/run/vm")
		require.ErrorContains(t, err, "the VM was started by another version of this program: /run/vm/")
	}
}

func TestMain(m *testing.M) {
	evaluate.Serve(context.Background(), nil) // if this is an evaluating process
	os.Exit(m.Run())
}

// recorded writes the record of a VM started from a file, with this process as its QEMU.
func recorded(t *testing.T, file, runtimeDir string) Machine {
	t.Helper()
	require.NoError(t, os.MkdirAll(runtimeDir, 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(runtimeDir, prepare.MonitorSocket), nil, 0o600))
	self, err := childprocess.Identify(os.Getpid())
	require.NoError(t, err)
	r := Machine{
		Version: version, QEMU: self, Began: time.Now(), ConfigFile: file, DataDir: t.TempDir(),
		Config: "/Runner: {vmType: mine, vm: {name: web}}", UUID: "0fb220b0-d73a-4b14-8a00-deb295bee377",
		VMType: "VM type mine.star\n\n-- mine.star --\ndef launch(vm, host):\n    return part(executable = \"/bin/true\")\n",
	}
	require.NoError(t, r.Write(runtimeDir))
	return r
}

// A VM is found only by its original configuration file, even if the file has changed.
func TestAVMIsFoundByItsFile(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("XDG_RUNTIME_DIR", dir)
	file := filepath.Join(dir, "config.yaml")
	require.Nil(t, RunningBy(t.Context(), file))
	require.Empty(t, StartedBy(file))

	web, other := filepath.Join(dir, "vmrunner", "web"), filepath.Join(dir, "vmrunner", "other")
	recorded(t, filepath.Join(dir, "other.yaml"), other)
	require.Empty(t, StartedBy(file))
	recorded(t, file, web)
	require.Equal(t, web, StartedBy(file))
	t.Chdir(dir)
	require.Equal(t, web, StartedBy("config.yaml"))
	vm := RunningBy(t.Context(), file)
	require.NotNil(t, vm)
	require.Equal(t, web, vm.RuntimeDir)
	require.Equal(t, "web", vm.Spec.Name)

	record := filepath.Join(web, prepare.RecordFile)
	require.NoError(t, os.WriteFile(record, []byte("{"), 0o600))
	require.Empty(t, StartedBy(file))
	require.NoError(t, os.WriteFile(record, []byte(`{"configFile": "`+file+`"}`), 0o600))
	require.Equal(t, web, StartedBy(file))
	require.Nil(t, RunningBy(t.Context(), file), "it is a VM that can't be made of the record")
}

// A directory's QEMU is the recorded process if it is running, and otherwise the process that listens at the monitor's
// socket.
func TestTheQEMUThatIsLeft(t *testing.T) {
	t.Parallel()
	dir, err := os.MkdirTemp("", "r") // a short path for a socket
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	pid, file := Left(dir)
	require.Zero(t, pid)
	require.Empty(t, file)
	r := recorded(t, "/c.yaml", dir)
	pid, file = Left(dir)
	require.Equal(t, os.Getpid(), pid)
	require.Equal(t, "/c.yaml", file)

	r.QEMU = childprocess.ID{}
	require.NoError(t, r.Write(dir))
	pid, _ = Left(dir)
	require.Zero(t, pid, "it has ended")
	require.NoError(t, os.Remove(filepath.Join(dir, prepare.MonitorSocket)))
	l, err := net.Listen("unix", filepath.Join(dir, prepare.MonitorSocket))
	require.NoError(t, err)
	socket, err := l.(*net.UnixListener).File()
	require.NoError(t, err)
	heir := exec.CommandContext(t.Context(), "sleep", "1000")
	heir.ExtraFiles = []*os.File{socket}
	require.NoError(t, heir.Start())
	t.Cleanup(func() { _ = heir.Wait() }) // the context ends the process
	require.NoError(t, errors.Join(socket.Close(), l.(*net.UnixListener).Close()))
	pid, file = Left(dir)
	require.Equal(t, heir.Process.Pid, pid)
	require.Equal(t, "/c.yaml", file)
}

// The data directory leads to the runtime directory of the running machine.
func TestTheRuntimeDirectoryIsNoted(t *testing.T) {
	t.Parallel()
	data, before := t.TempDir(), time.Now().Add(-time.Minute)
	at, noted := Linked(data, "/run/configured")
	require.Equal(t, "/run/configured", at)
	require.False(t, noted)
	require.False(t, LinkedSince(data, before))

	require.NoError(t, Link(data, "/run/web"))
	at, noted = Linked(data, "/run/configured")
	require.Equal(t, "/run/web", at)
	require.True(t, noted)
	require.True(t, LinkedSince(data, before))
	require.False(t, LinkedSince(data, time.Now().Add(time.Minute)))
	link := filepath.Join(data, prepare.RuntimeLink)
	first, err := os.Lstat(link)
	require.NoError(t, err)
	require.NoError(t, Link(data, "/run/web"))
	again, err := os.Lstat(link)
	require.NoError(t, err)
	require.Equal(t, first.ModTime(), again.ModTime(), "it is not noted anew")
	require.NoError(t, Link(data, "/run/other"))
	at, _ = Linked(data, "")
	require.Equal(t, "/run/other", at)
	require.ErrorContains(t, Link(filepath.Join(data, "none"), "/run/web"), "note the runtime directory")
}

// Records are read back as they were written. A missing record is not an error, a damaged record is.
func TestRecordsAreKept(t *testing.T) {
	t.Parallel()
	run := filepath.Join(t.TempDir(), "run")
	r := recorded(t, "/c.yaml", run)
	vm := &prepare.VM{
		File: "/c.yaml", RuntimeDir: run, DataDir: r.DataDir, Config: &config.Config{},
		Plan: &plan.Plan{Helpers: []plan.Process{{Name: "passt"}, {Name: "swtpm"}}},
	}
	r.Helpers = []childprocess.ID{{PID: 1}, {PID: 2}}
	require.NoError(t, r.Write(run))
	require.NoError(t, Restarted(vm, "swtpm", childprocess.ID{PID: 3}))
	got, there, err := Read(run)
	require.NoError(t, err)
	require.True(t, there)
	require.Equal(t, []childprocess.ID{{PID: 1}, {PID: 3}}, got.Helpers)
	err = Restarted(&prepare.VM{RuntimeDir: t.TempDir()}, "swtpm", childprocess.ID{})
	require.NoError(t, err, "there is no record")

	p := machine.Progress{Generation: 7}
	require.NoError(t, ReadProgress(run, &p))
	require.EqualValues(t, 7, p.Generation, "it stays as it was")
	require.NoError(t, WriteProgress(run, machine.Progress{Generation: 8, Paused: true}))
	require.NoError(t, ReadProgress(run, &p))
	require.Equal(t, machine.Progress{Generation: 8, Paused: true}, p)

	require.Same(t, vm.Config, ReadConfig(vm))
	cfg, _, err := config.Parse("/c.yaml", []byte("/Runner: {vm: {name: other}}"))
	require.NoError(t, err)
	require.NoError(t, WriteConfig(run, cfg))
	require.Equal(t, "other", ReadConfig(vm).VM.Name)
	require.NoError(t, os.WriteFile(filepath.Join(run, prepare.ConfigFile), []byte("{"), 0o600))
	require.Same(t, vm.Config, ReadConfig(vm))

	_, failed, err := ReadStartFailure(r.DataDir)
	require.NoError(t, err)
	require.False(t, failed)
	require.NoError(t, ForgetStartFailure(r.DataDir))
	require.NoError(t, StartFailure{Message: "no disk"}.Write(r.DataDir))
	f, failed, err := ReadStartFailure(r.DataDir)
	require.NoError(t, err)
	require.True(t, failed)
	require.Equal(t, "no disk", f.Message)
	require.NoError(t, ForgetStartFailure(r.DataDir))
	_, failed, _ = ReadStartFailure(r.DataDir)
	require.False(t, failed)

	for cause, well := range map[vmstatus.Cause]bool{
		vmstatus.CauseGuest: true, vmstatus.CauseKilled: false, vmstatus.CauseUnknown: false,
	} {
		require.NoError(t, End{Pod: "u", Cause: cause}.Write(r.DataDir))
		e, there, err := ReadEnd(r.DataDir)
		require.NoError(t, err)
		require.True(t, there)
		require.Equal(t, cause, e.Cause)
		require.Equal(t, well, e.Well(), cause)
	}
	require.NoError(t, os.WriteFile(EndFile(r.DataDir), []byte("{"), 0o600))
	_, _, err = ReadEnd(r.DataDir)
	require.ErrorContains(t, err, "read "+EndFile(r.DataDir))
}
