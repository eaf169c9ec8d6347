package runner_test

import (
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"vmop/runner/config"
	"vmop/runner/status"
	"vmop/test/wait"
	"vmop/vmstatus"
)

// changeable returns a small machine of the standard type that stays in its firmware.
func changeable(t *testing.T, more ...string) *vm {
	t.Helper()
	v := newVM(t, "wrapped")
	require.NoError(t, os.WriteFile(v.path("a.iso"), make([]byte, 64<<10), 0o600))
	require.NoError(t, os.WriteFile(v.path("b.iso"), make([]byte, 64<<10), 0o600))
	v.observer = v.observed()
	v.configure("wrapped", nil, v.section(more...)...)
	return v
}

func (v *vm) section(more ...string) []string {
	return append([]string{
		v.observer, "accelerator: tcg", "firmware: bios", "network: []", "maximumRam: 256 MiB",
		"maximumCpus: 4",
	}, more...)
}

// cpus returns the number of CPUs that QEMU has plugged.
func (v *vm) cpus() int {
	var slots []struct {
		Path string `json:"qom-path"`
	}
	v.ask(&slots, "query-hotpluggable-cpus", nil)
	n := 0
	for _, s := range slots {
		if s.Path != "" {
			n++
		}
	}
	return n
}

// medium returns the file in the first CD drive, and whether its tray is open.
func (v *vm) medium() string {
	var blocks []struct {
		Qdev     string `json:"qdev"`
		TrayOpen bool   `json:"tray_open"`
		Inserted *struct{ File string }
	}
	v.ask(&blocks, "query-block", nil)
	for _, b := range blocks {
		if strings.Contains(b.Qdev, "cd0") && b.Inserted != nil && !b.TrayOpen {
			return b.Inserted.File
		}
	}
	return ""
}

func eventually[T comparable](t *testing.T, want T, get func() T) {
	t.Helper()
	wait.Until(t, func() bool { return get() == want })
}

// The runner does not pass a silent web server to QEMU, which would wait for it in its main thread and stop the guest.
func TestQEMUIsKeptFromASilentServer(t *testing.T) {
	t.Parallel()
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { silent.Close() })
	v := changeable(t, "drives: [{type: ide-cd, file: a.iso}]")
	v.runs()
	address := "http://" + silent.Addr().String() + "/b.iso"
	v.configure("wrapped", nil, v.section("drives: [{type: ide-cd, file: '"+address+"'}]")...)
	v.becomes("the server is missed", func(s status.Status) bool {
		return len(s.Problems) > 0 && strings.Contains(s.Problems[0].Message, "the server does not answer within 3s")
	})
	v.notLogged("QMP reply", "command", "blockdev-change-medium")
	v.configure("wrapped", nil, v.section("drives: [{type: ide-cd, file: b.iso}]")...)
	eventually(t, v.path("b.iso"), v.medium)
	v.ends()
}

// QEMU receives no internal address, at the start and while the guest runs. In a pod this includes addresses of this
// computer.
func TestQEMUIsKeptFromInternalAddresses(t *testing.T) {
	t.Parallel()
	metadata := "drives: [{type: ide-cd, file: 'http://169.254.169.254/latest/meta-data'}]"
	v := changeable(t, "drives: [{type: ide-cd, file: a.iso}]")
	v.configure("wrapped", nil, v.section(metadata)...)
	v.start()
	_, err := v.wait()
	require.ErrorContains(t, err, "vm.drives[0].file: cannot read the medium: 169.254.169.254 is a link-local address")
	here := "drives: [{type: ide-cd, file: 'http://localhost:1/'}]"
	v.configure("wrapped", []string{"resource: 4711"}, v.section(here)...)
	v.start()
	_, err = v.wait()
	require.ErrorContains(t, err, "vm.drives[0].file: cannot read the medium: localhost is a loopback address")

	v.configure("wrapped", nil, v.section("drives: [{type: ide-cd, file: a.iso}]")...)
	v.runs()
	v.configure("wrapped", nil, v.section(metadata)...)
	v.becomes("the address is refused", func(s status.Status) bool {
		return len(s.Problems) > 0 && strings.Contains(s.Problems[0].Message, "169.254.169.254 is a link-local address")
	})
	v.notLogged("QMP reply", "command", "blockdev-change-medium")
	v.ends()
}

// An option that the VM type refuses is reported like other errors, for the running type and for the type after a
// restart.
func TestAFaultyOptionChangesNothing(t *testing.T) {
	t.Parallel()
	v := changeable(t, "currentCpus: 2")
	v.runs()
	v.log.forget()
	v.configure("wrapped", nil, append(v.section("currentCpus: 3"), "options: {qemu: "+v.path("bin", "qemu")+
		", panik: pause}")[1:]...)
	const refused = "the configuration cannot be used; the previous configuration stays active"
	r := v.log.await(t, v.ended, refused, "err", "vm.options.panik")
	require.Regexp(t, `config\.yaml:\d+:\d+: vm\.options\.panik: the VM type wrapped has no such option \(did you mean panic\?\)$`, r["err"])
	v.log.forget()
	v.configure("standard", nil, v.section("currentCpus: 3")...)
	v.log.await(t, v.ended, refused, "err",
		"vm.options.qemu: the VM type standard has no such option (it takes ")
	require.Equal(t, 2, v.cpus())
	v.configure("wrapped", nil, v.section("currentCpus: 3")...)
	eventually(t, 3, v.cpus)
	v.ends()
}

// The guest, a firmware, does not react to the power button. Its 900 seconds are shortened while they run.
func TestPowerdownTimeoutIsChangedWhileTheGuestIsAsked(t *testing.T) {
	t.Parallel()
	v := changeable(t)
	v.configure("wrapped", nil, v.section("powerdownTimeout: 900")...)
	v.runs()
	v.cancel(errEnough)
	v.log.await(t, v.ended, "QMP event", "event", "POWERDOWN")
	v.configure("wrapped", nil, v.section("powerdownTimeout: 1")...)
	outcome, err := v.wait()
	require.NoError(t, err)
	require.Equal(t, vmstatus.CauseForced, outcome.Cause)
	v.nothingLeft()
}

// The guest's time is limited by the pod's grace period, which does not grow when powerdownTimeout is increased after
// the start.
func TestTheGracePeriodBoundsTheGuestsTime(t *testing.T) {
	t.Parallel()
	v := changeable(t)
	v.grace = config.ForcedStop + time.Second
	v.runs()
	v.configure("wrapped", nil, v.section("powerdownTimeout: 900")...)
	v.log.await(t, v.ended, "configuration read")
	outcome, err := v.stop()
	require.NoError(t, err)
	require.Equal(t, vmstatus.CauseForced, outcome.Cause)
	v.logged("the guest has less time than powerdownTimeout: the pod would be killed before", "time", "1s",
		"powerdownTimeout", "15m0s", "gracePeriod", "36s")
	v.logged("stopping", "method", "ACPI power button", "timeout", "1s")
	v.nothingLeft()
}

// A missing configuration is reported. The previous configuration stays active until the file returns.
func TestTheConfigurationDisappears(t *testing.T) {
	t.Parallel()
	v := changeable(t)
	v.runs()
	text := v.read("config.yaml")
	v.becomes("it is in force", func(s status.Status) bool {
		return s.Condition(vmstatus.ConditionConfigApplied).Status == vmstatus.True
	})
	require.NoError(t, os.Remove(v.path("config.yaml")))
	s := v.becomes("it is missed", func(s status.Status) bool {
		return s.Condition(vmstatus.ConditionConfigApplied).Status == vmstatus.False
	})
	require.Equal(t, vmstatus.ReasonConfigInvalid, s.Condition(vmstatus.ConditionConfigApplied).Reason)
	require.Contains(t, s.Condition(vmstatus.ConditionConfigApplied).Message, v.path("config.yaml")+
		": no such file or directory")
	require.Equal(t, vmstatus.True, s.Condition(vmstatus.ConditionReady).Status, "the VM keeps running")
	v.logged("the configuration cannot be used; the previous configuration stays active", "err", "no such file")
	v.write("config.yaml", text)
	v.becomes("it is there again", func(s status.Status) bool {
		return s.Condition(vmstatus.ConditionConfigApplied).Status == vmstatus.True
	})
	v.ends()
}
