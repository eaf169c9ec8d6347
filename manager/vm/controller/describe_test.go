package controller

import (
	"testing"

	"github.com/stretchr/testify/require"

	v1 "vmop/api/v1"
	"vmop/test/wait"
)

// "kubectl describe" shows the events of a VM and who requested them, in the format that users know from pods.
func TestDescribe(t *testing.T) {
	t.Parallel()
	w := begin(t)
	w.vm("web")
	pod := w.boot("web")
	w.request("stop", "Stop")
	w.removeWhenTold(pod)
	w.phase("web", v1.PhaseStopped, "Stopped")
	wait.Until(t, func() bool { return len(w.events("web", "Stopped")) == 1 })
	text := w.Kubectl("describe", "vm", "web")
	require.Regexp(t, `(?m)^Name: +web$`, text)
	require.Regexp(t, `(?m)^ +Phase: +Stopped$`, text)
	require.Regexp(t, `(?m)^Events:\n +Type +Reason +Age +From +Message\n`, text)
	const from = `[^ ]+ +vmoperator\.jdrupes\.org/vm-manager[^ ]* +`
	require.Regexp(t, `(?m)^ +Normal +Started +`+from+`the guest is running on node `+node+`$`, text)
	stop := ` has requested: Stop \(VirtualMachineOperation stop\)$`
	require.Regexp(t, `(?m)^ +Normal +Requested +`+from+user+stop, text)
	require.Regexp(t, `(?m)^ +Normal +Stopped +`+from+`the VM has stopped because spec\.vm\.state is Stopped`, text)
}
