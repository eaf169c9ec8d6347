package e2e_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	v1 "vmop/api/v1"
	"vmop/test/guest"
	"vmop/test/wait"
)

// The example debian works from an empty namespace to a log-in to Debian. A local server replaces the publisher's
// server. A collector receives the trace of its start.
func debian(t *testing.T, l *lab) {
	u, starts := newUser(t, l), l.trace(t)
	image := guest.Debian(t)
	listener, err := l.Listen(t.Context())
	require.NoError(t, err)
	serveOn(t, listener, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { http.ServeFile(w, r, image) }))
	u.types("ssh-keygen -q -t ed25519 -N '' -f ~/key", "")
	key, err := os.ReadFile(filepath.Join(u.home, "key.pub"))
	require.NoError(t, err)

	const url = "https://cloud.debian.org/images/cloud/bookworm/latest/debian-12-generic-amd64.qcow2"
	v := l.example(t, "debian", "debian", []string{"vm.yaml"}, url, "http://"+listener.Addr().String()+"/debian.qcow2",
		"ssh-ed25519 AAAA…", strings.TrimSpace(string(key)), "state: Running", "state: Running\n    accelerator: tcg")
	d := l.diskIs(t, "debian-root", v1.DiskReady, "")
	require.Equal(t, "qcow2", d.Status.Import.Format)
	v.runs()
	inside := v.console()
	for _, said := range []string{
		`Linux version`, `Cloud-init v\..* running 'init-local'`, `Cloud-init v\..* finished at`,
	} {
		inside.await(said) // without KVM the boot takes two minutes of processor time
	}
	// An attempt that is interrupted leaves an sshd that keeps computing, so use few, long attempts.
	log := "timeout 300 kubectl vmop ssh joe@debian -i ~/key -t '-o ConnectTimeout=240' --command "
	wait.For(t, "the guest lets its user in", func() error {
		out, err := u.command(log + "true").CombinedOutput()
		if err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		return nil
	})
	require.Equal(t, "root", strings.TrimSpace(u.types(log+"'sudo whoami'", "")))
	size := u.types(log+"'df --output=size -B1G / | tail -1'", "")
	require.Equal(t, "10", strings.TrimSpace(size), "the file system is as large as the disk")
	v.condition(v1.ConditionBooted, "True")
	starts.have(t, "vm.start", "pod.schedule", "pod.prepare", "machine.start", "guest.boot")

	// The commands of Deckhouse's document, with another VM name.
	u.types("kubectl vmop disk create blank-disk --size 96Mi --wait", "")
	u.types("kubectl apply -f -", `
apiVersion: vmoperator.jdrupes.org/v1
kind: VirtualMachineBlockDeviceAttachment
metadata:
  name: attach-blank-disk
spec:
  blockDeviceRef:
    kind: VirtualDisk
    name: blank-disk
  virtualMachineName: debian
`)
	u.until("kubectl get vmbda attach-blank-disk", "(?m)^attach-blank-disk +Attached +debian ")
	u.until(log+"lsblk", `(?m)^\w+ +\d+:\d+ +0 +96M +0 disk *$`)
	u.types("kubectl delete vmbda attach-blank-disk --timeout=2m", "")
	require.NotContains(t, u.types(log+"lsblk", ""), "96M")
}
