package objects_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/labels"
	metav1 "k8s.io/client-go/applyconfigurations/meta/v1"

	v1 "vmop/api/v1"
	"vmop/manager/vm/objects"
)

// An export is a pod outside of any VM. It mounts a single claim, and writes only if requested.
func TestExport(t *testing.T) {
	t.Parallel()
	s := objects.Settings{Image: "runner:1", ImagePullPolicy: corev1.PullAlways}
	for _, e := range []objects.Export{
		{OnFileSystem: true, Size: resource.MustParse("100M")}, {}, {ReadOnly: true},
	} {
		e.Name, e.Namespace, e.VM, e.Claim = "vm", "ns", "vm", "vd-data"
		e.Owner = metav1.OwnerReference().WithName("data")
		pod, err := e.Pod(s)
		require.NoError(t, err)
		service, err := e.Service(s)
		require.NoError(t, err)
		has := labels.Set(pod.Labels)
		require.True(t, labels.SelectorFromSet(service.Spec.Selector).Matches(has))
		vm := &v1.VirtualMachine{}
		vm.Name = "vm"
		require.False(t, labels.SelectorFromSet(objects.Labels(vm)).Matches(has), "it is none of the VM's pods")
		c := pod.Spec.Containers[0]
		require.Equal(t, "runner:1", *c.Image)
		require.Equal(t, "vd-data", *pod.Spec.Volumes[0].PersistentVolumeClaim.ClaimName)
		args := strings.Join(c.Args, " ")
		require.Equal(t, e.ReadOnly, strings.Contains(args, "--read-only"))
		if e.OnFileSystem {
			require.Contains(t, args, "--disk /var/local/vm-disks/disk.img --size 99614720") // whole MiB
			require.Len(t, c.VolumeMounts, 2)
			continue
		}
		require.Contains(t, args, "--disk "+*c.VolumeDevices[0].DevicePath)
		require.NotContains(t, args, "--size")
	}
}
