package e2e_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	v1 "vmop/api/v1"
	"vmop/manager/vm/decide"
	"vmop/test/guest"
)

// userData returns the Secret of Deckhouse's guide, with a key. Its text is "#cloud-config\npackage_update: true\n".
func userData(key string) string {
	return `
apiVersion: v1
kind: Secret
metadata:
  name: cloud-init-example
data:
  ` + key + `: I2Nsb3VkLWNvbmZpZwpwYWNrYWdlX3VwZGF0ZTogdHJ1ZQo=
type: provisioning.virtualization.deckhouse.io/cloud-init
`
}

// Guests configure themselves from Secrets. A VM waits for its Secret and for the key in it (docs/tasks/cloud-init.md,
// docs/tasks/sysprep.md).
func provisioning(t *testing.T, l *lab) {
	windows := l.create(t, tiny("windows", func(s *v1.VirtualMachineSpec) {
		s.Provisioning = &v1.Provisioning{
			Type: v1.ProvisioningSysprepRef, SysprepRef: &v1.SecretRef{Kind: "Secret", Name: "sysprep-example"},
		}
		s.VM.Kernel.Image, s.VM.Kernel.Initrd = l.seesUSB(t)
	}))
	v := l.create(t, tiny("scripted", func(s *v1.VirtualMachineSpec) {
		s.Provisioning = &v1.Provisioning{
			Type: v1.ProvisioningUserDataRef, UserDataRef: &v1.SecretRef{Kind: "Secret", Name: "cloud-init-example"},
		}
	}))
	inline := l.create(t, tiny("inline", func(s *v1.VirtualMachineSpec) {
		s.Provisioning = &v1.Provisioning{
			Type: v1.ProvisioningUserData, UserData: new("#cloud-config\nssh_pwauth: True\n"),
		}
		s.CPU = &v1.CPU{CoreFraction: "10%"}
	}))
	because := func(v *clusterVM, phase v1.Phase, reason string) string {
		is := v.until("to be "+string(phase)+" for "+reason, func(now *v1.VirtualMachine) bool {
			return now.Status.Phase == phase && now.Status.Reason == reason
		})
		return is.Status.Message
	}
	because(windows, v1.PhasePending, decide.ReasonSecretMissing)
	require.Contains(t, because(v, v1.PhasePending, decide.ReasonSecretMissing), "Secret cloud-init-example")
	require.Nil(t, v.pod())

	l.applyText(t, userData("user-data"))
	require.Contains(t, because(v, v1.PhaseFailed, decide.ReasonSecretKey), "with the key userData")
	l.applyText(t, userData("userData"))
	v.runs()
	inline.runs()
	inline.console().await(`^USERDATA: #cloud-config\r?\nUSERDATA: ssh_pwauth: True\r?$`)
	require.EqualValues(t, 100, inline.pod().Spec.Containers[0].Resources.Requests.Cpu().MilliValue())
	inside := v.console()
	inside.await(`^USERDATA: #cloud-config\r?\nUSERDATA: package_update: true\r?$`)

	l.applyText(t, `
apiVersion: v1
kind: Secret
metadata:
  name: sysprep-example
data:
  unattend.xml: PHVuYXR0ZW5kLz4K
type: provisioning.virtualization.deckhouse.io/sysprep
`)
	windows.runs()
	require.Equal(t, "<unattend/>", windows.console().booted().ask("mkdir -p /m; "+
		"until [ -b /dev/sda ]; do usleep 100000; done; mount -t vfat -o ro /dev/sda /m; cat /m/Autounattend.xml"))
}

// seesUSB adds a guest with USB drivers to the image repository, and returns the names of its kernel and initial RAM
// disk.
func (l *lab) seesUSB(t *testing.T) (kernel, initrd string) {
	t.Helper()
	pc := guest.PC(t)
	for to, from := range map[string]string{"pc-vmlinuz": pc.Kernel, "pc-initrd.gz": pc.Initrd} {
		content, err := os.ReadFile(from)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(l.Dir, "repository", to), content, 0o644))
	}
	return "pc-vmlinuz", "pc-initrd.gz"
}
