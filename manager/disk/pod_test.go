package disk_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	v1 "vmop/api/v1"
	"vmop/manager/disk"
)

func worker() disk.Worker {
	return disk.Worker{
		Image: "runner:1", ServiceAccount: "vm-runner", Labels: map[string]string{"a": "b"}, Gate: "held",
		Authorities: "authorities",
	}
}

// The pod for a web server has a gate and no token, and gets secrets as files.
func TestPodOfAWebServer(t *testing.T) {
	t.Parallel()
	d := importing().Disk
	d.Spec.DataSource.HTTP.CABundle = []byte("PEM")
	d.Spec.DataSource.HTTP.Checksum = &v1.Checksum{SHA512: "ab"}
	pod := disk.Pod(d, nil, worker(), nil)
	c := pod.Spec.Containers[0]
	require.Equal(t, []string{
		"import", "--log-format=json", "--termination-log=/dev/termination-log", "--listen=:8080", "--scratch=/scratch",
		"--target=/dev/target", "--url=https://example.org/x", "--checksum=sha512:ab",
		"--auth-folder=/etc/vmimport/secret",
		"--ca-file=/etc/vmimport/ca/ca.pem",
	}, c.Args)
	require.Equal(t, []corev1.VolumeDevice{{Name: "target", DevicePath: "/dev/target"}}, c.VolumeDevices)
	require.Equal(t, "PEM", pod.Annotations["vmoperator.jdrupes.org/ca-bundle"])
	require.Equal(t, "held", pod.Spec.SchedulingGates[0].Name)
	require.False(t, *pod.Spec.AutomountServiceAccountToken)
	require.Equal(t, corev1.RestartPolicyNever, pod.Spec.RestartPolicy)
	require.Equal(t, []string{"scratch", "target", "secret", "ca"}, volumes(pod))
	for _, m := range c.VolumeMounts {
		require.Equal(t, m.Name != "scratch", m.ReadOnly, m.Name)
	}
	require.True(t, c.Resources.Limits.StorageEphemeral().Cmp(resource.MustParse("1Gi")) > 0)
	require.Equal(t, "1Gi", c.Resources.Requests.StorageEphemeral().String())
	require.Nil(t, pod.OwnerReferences[0].BlockOwnerDeletion)
	require.Equal(t, "d", string(pod.OwnerReferences[0].UID))
}

func TestASettingKeepsImportsFromPrivateAddresses(t *testing.T) {
	t.Parallel()
	w := worker()
	require.NotContains(t, disk.Pod(importing().Disk, nil, w, nil).Spec.Containers[0].Args, "--no-private-addresses")
	w.NoPrivate = true
	require.Contains(t, disk.Pod(importing().Disk, nil, w, nil).Spec.Containers[0].Args, "--no-private-addresses")
}

// The pod for a container image writes to a disk that is a file.
func TestPodOfAContainerImage(t *testing.T) {
	t.Parallel()
	d := importing().Disk
	d.Spec.PersistentVolumeClaim.VolumeMode = corev1.PersistentVolumeFilesystem
	d.Spec.PersistentVolumeClaim.Size = resource.MustParse("3500k") // 3.3 MiB
	d.Spec.DataSource = &v1.VirtualDiskSource{Type: v1.DiskSourceContainerImage}
	d.Spec.DataSource.ContainerImage = &v1.ContainerImageSource{
		Image: "registry.example/x:1", ImagePullSecret: &v1.LocalSecretRef{Name: "pull"},
	}
	pod := disk.Pod(d, nil, worker(), &disk.Place{
		NodeSelector: map[string]string{"disk": "ssd"}, Claims: []string{"vd-root", "vd-other"},
	})
	args := strings.Join(pod.Spec.Containers[0].Args, " ")
	require.Contains(t, args, "--size=3145728 --target=/target/disk.img --image=registry.example/x:1 "+
		"--docker-config=/etc/vmimport/secret/.dockerconfigjson")
	require.Equal(t, []string{"scratch", "target", "secret", "beside-1"}, volumes(pod))
	require.Equal(t, "vd-other", pod.Spec.Volumes[3].PersistentVolumeClaim.ClaimName)
	require.Equal(t, "pull", pod.Spec.Volumes[2].Secret.SecretName)
	require.Equal(t, "ssd", pod.Spec.NodeSelector["disk"])
	written := slices.ContainsFunc(pod.Spec.Containers[0].VolumeMounts, func(m corev1.VolumeMount) bool {
		return m.Name == "target" && !m.ReadOnly
	})
	require.True(t, written)
}

func volumes(pod *corev1.Pod) (names []string) {
	for _, v := range pod.Spec.Volumes {
		names = append(names, v.Name)
	}
	return names
}
