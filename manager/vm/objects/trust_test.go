package objects_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "vmop/api/v1"
	"vmop/internal/yamlfile"
	"vmop/manager/addresses"
	"vmop/manager/vm/objects"
	"vmop/runner/config"
	"vmop/vmspec"
)

func TestImagePatterns(t *testing.T) {
	t.Parallel()
	const digest = "@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	const other = "@sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
	for pattern, row := range map[string]struct{ trusted, not []string }{
		"registry.example/vmop/runner": {
			[]string{
				"registry.example/vmop/runner", "registry.example/vmop/runner:1.0",
				"registry.example/vmop/runner" + digest, "registry.example/vmop/runner:1.0" + digest,
			},
			[]string{
				"registry.example/vmop/runner2", "registry.example/vmop/runner/x", "registry.example:5000/vmop/runner",
				"vmop/runner", "evil.example/registry.example/vmop/runner",
				"registry.example/vmop/../runner", "registry.example/vmop/runner:", "registry.example/vmop/runner ",
				"REGISTRY.example/vmop/runner", "", "https://registry.example/vmop/runner",
			},
		},
		"registry.example/vmop/runner:1.0": {
			[]string{"registry.example/vmop/runner:1.0"},
			[]string{
				"registry.example/vmop/runner", "registry.example/vmop/runner:1.0.1",
				"registry.example/vmop/runner:1.0" + digest,
			},
		},
		"registry.example/vmop/runner:latest": {
			[]string{"registry.example/vmop/runner"},
			[]string{"registry.example/vmop/runner:1"},
		},
		"registry.example/vmop/runner" + digest: {
			[]string{"registry.example/vmop/runner" + digest, "registry.example/vmop/runner:1.0" + digest},
			[]string{
				"registry.example/vmop/runner", "registry.example/vmop/runner" + other,
				"registry.example/vmop/runner:1.0" + other,
			},
		},
		"registry.example/vmop/*": {
			[]string{"registry.example/vmop/runner:1", "registry.example/vmop/a/b"},
			[]string{
				"registry.example/vmop", "registry.example/vmop-evil/runner",
				"registry.example.evil.example/vmop/runner", "vmop/runner",
			},
		},
		"registry.example/*": {
			[]string{"registry.example/a", "registry.example/a/b" + digest},
			[]string{"registry.example.evil.example/a", "registry.example:1/a", "a"},
		},
		"vmop/runner": {
			[]string{"vmop/runner:1", "docker.io/vmop/runner", "index.docker.io/vmop/runner"},
			[]string{"registry.example/vmop/runner", "runner"},
		},
		"docker.io/library/*": {
			[]string{"runner:1", "docker.io/runner"},
			[]string{"vmop/runner", "sha256:" + strings.Repeat("a", 64), "deadbeef", strings.Repeat("a", 64)},
		},
		"*": {[]string{"runner", "evil.example/x:1" + digest, "deadbeef"}, nil},
	} {
		require.NoError(t, objects.ImagePattern(pattern).Validate(), pattern)
		for want, images := range map[bool][]string{true: row.trusted, false: row.not} {
			for _, image := range images {
				vm := sample(t, func(vm *v1.VirtualMachine) { vm.Spec.Image = &v1.Image{Source: image} })
				s := settings()
				s.Trust.Images = []objects.ImagePattern{"other.example/unrelated", objects.ImagePattern(pattern)}
				require.Equal(t, want, len(objects.Distrust(vm, s, nil)) == 0, "%q by %q", image, pattern)
			}
		}
	}
	for _, wrong := range []string{
		"", "registry.example*", "registry.example/vmop/run*", "*/runner", "a b",
		"Registry.example/Runner", "registry.example/*:1", "**",
	} {
		require.Error(t, objects.ImagePattern(wrong).Validate(), wrong)
	}
}

func TestURLPatterns(t *testing.T) {
	t.Parallel()
	bridged := func(url string) *v1.VirtualMachine {
		return sample(t, func(vm *v1.VirtualMachine) {
			vm.Spec.VM.Accelerator, vm.Spec.VM.Networks = "tcg", []v1.Network{{Tap: &v1.Tap{}}}
			vm.Spec.VM.Disks[1].CDROM.Image = url
		})
	}
	trusts := func(url string, patterns ...objects.URLPattern) bool {
		s := settings()
		s.Trust.URLs = patterns
		return len(objects.Distrust(bridged(url), s, nil)) == 0
	}
	const pattern = "https://images.example/iso/"
	require.NoError(t, objects.URLPattern(pattern).Validate())
	for url, want := range map[string]bool{
		"https://images.example/iso/a.iso": true, "https://images.example/iso/b/a%20b.iso?c=d": true,
		"https://images.example/other/a.iso": false, "http://images.example/iso/a.iso": false,
		"https://images.example:8443/iso/a.iso":                 false,
		"https://images.example.evil.example/iso/a.iso":         false,
		"https://evil.example/https://images.example/iso/a.iso": false,
		"https://images.example@evil.example/iso/a.iso":         false,
		`https://evil.example\\@images.example/iso/a.iso`:       false,
		"https://images.example/iso/../secret":                  false,
		"https://images.example/iso/%2e%2e/secret":              false, "https://images.example/iso/..%2fsecret": false,
		"http://169.254.169.254/latest/meta-data/": false, "http://127.0.0.1:2379/": false,
	} {
		require.Equal(t, want, trusts(url, "https://x.example/", pattern), url)
		require.False(t, trusts(url), "only listed URLs are trusted")
		require.True(t, trusts(url, "*"))
	}
	require.True(t, trusts("live.iso"), "a file")
	inPod := bridged("http://169.254.169.254/")
	inPod.Spec.VM.Networks = []v1.Network{{User: &v1.UserNetwork{}}}
	require.Empty(t, objects.Distrust(inPod, settings(), nil), "the guest itself reaches what its pod reaches")
	for _, wrong := range []string{
		"", "images.example/", "https://", "https://images.example",
		"https://images.example/iso", "https://a@b/", "ftp://images.example/", "https://images.example/../",
		"https://*/",
	} {
		require.Error(t, objects.URLPattern(wrong).Validate(), wrong)
	}
}

// A user's own image runs only in a pod that passes "restricted", unless the administrator trusts it. The message
// contains the reason and the remedy.
func TestDistrust(t *testing.T) {
	t.Parallel()
	image := func(vm *v1.VirtualMachine) { vm.Spec.Image = &v1.Image{Source: "evil.example/x:1"} }
	types := func(vm *v1.VirtualMachine) { vm.Spec.VMType.ConfigMap = "mine" }
	const kvm = "privileged for spec.vm.accelerator (auto), root for spec.vm.accelerator (auto); " +
		"run the VM with spec.vm.accelerator tcg, or kvmResource in the manager's configuration, or ask the administrator to "
	for name, row := range map[string]struct {
		vm   func(*v1.VirtualMachine)
		s    func(*objects.Settings)
		want []string
	}{
		"the manager's image": {func(*v1.VirtualMachine) {}, nil, nil},
		"its repository": {func(vm *v1.VirtualMachine) {
			vm.Spec.Image = &v1.Image{Repository: "example.test/vmop", Path: "runner", Version: "0.9"}
		}, nil, nil},
		"another image": {image, nil, []string{
			"spec.image: evil.example/x:1 is not a trusted image, and the VM's pod gets " + kvm +
				"add it to trustedImages in the manager's configuration",
		}},
		"another image, emulated": {func(vm *v1.VirtualMachine) {
			image(vm)
			vm.Spec.VM.Accelerator = "tcg"
		}, nil, nil},
		"another image, with a plugin": {image, func(s *objects.Settings) {
			s.KVMResource = "devices.kubevirt.io/kvm"
		}, nil},
		"another image, masquerade": {func(vm *v1.VirtualMachine) {
			image(vm)
			vm.Spec.VM.Accelerator, vm.Spec.VM.Networks = "tcg", []v1.Network{{Masquerade: &v1.PrivateNetwork{}}}
		}, nil, []string{"spec.image: evil.example/x:1 is not a trusted image, and the VM's pod gets root for spec.vm.networks[0].masquerade, " +
			"capability NET_ADMIN for spec.vm.networks[0].masquerade, capability NET_BIND_SERVICE for spec.vm.networks[0].masquerade, device /dev/net/tun for spec.vm.networks[0].masquerade; " +
			"run the VM with networks of the kind user, or ask the administrator to add it to trustedImages in the manager's configuration"}},
		"other types": {types, nil, []string{
			"spec.vmType.configMap: mine is not a trusted source of VM types, and the VM's pod gets " + kvm +
				"add it to trustedVMTypes in the manager's configuration",
		}},
		"other types, emulated": {func(vm *v1.VirtualMachine) { types(vm); vm.Spec.VM.Accelerator = "none" }, nil, nil},
		"trusted types":         {types, func(s *objects.Settings) { s.Trust.VMTypes = []string{"a", "mine"} }, nil},
		"all types":             {types, func(s *objects.Settings) { s.Trust.VMTypes = []string{"*"} }, nil},
		"the manager's types":   {types, func(s *objects.Settings) { s.VMTypes = "mine" }, nil},
		"types of an image, emulated": {func(vm *v1.VirtualMachine) {
			vm.Spec.VMType.Image, vm.Spec.VM.Accelerator = "r.example/types/a:1", "tcg"
		}, nil, []string{"spec.vmType.image: VM types are not taken from r.example/types/a:1; ask the administrator to add " +
			"its repository to trustedVMTypeImages in the manager's configuration"}},
		"trusted types of an image": {
			func(vm *v1.VirtualMachine) { vm.Spec.VMType.Image = "r.example/types/a:1" },
			func(s *objects.Settings) { s.Trust.TypeImages = []objects.ImagePattern{"r.example/types/*"} }, nil,
		},
		"a user network beside a tap": {func(vm *v1.VirtualMachine) {
			vm.Spec.VM.Networks = []v1.Network{{Tap: &v1.Tap{}}, {User: &v1.UserNetwork{}}}
		}, nil, []string{"spec.vm.networks[1].user: together with a tap, it reaches what listens on the node's loopback addresses; use masquerade, or no tap"}},
	} {
		s := settings()
		if row.s != nil {
			row.s(&s)
		}
		var got []string
		for _, p := range objects.Distrust(sample(t, row.vm), s, nil) {
			require.True(t, p.Fatal)
			got = append(got, p.String())
		}
		require.Equal(t, row.want, got, name)
	}
}

// A tap needs a bridge that the administrator allows; the default bridge is br0.
func TestBridgesOfANode(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		bridge  string
		allowed []string
		want    string
	}{
		{"br0", []string{"br0"}, ""},
		{"", []string{"br1", "br0"}, ""},
		{"cni0", []string{"*"}, ""},
		{"", nil, "VMs must not use the bridge br0 of the node (none is allowed)"},
		{"cni0", []string{"br0", "br1"}, "VMs must not use the bridge cni0 of the node (allowed: br0, br1)"},
		{"br", []string{"br0"}, "VMs must not use the bridge br of the node (allowed: br0)"},
	} {
		vm := sample(t, func(vm *v1.VirtualMachine) {
			vm.Spec.VM.Networks = []v1.Network{{Masquerade: &v1.PrivateNetwork{}}, {Tap: &v1.Tap{Bridge: row.bridge}}}
		})
		s := settings()
		s.Trust.Bridges = row.allowed
		var got []string
		for _, p := range objects.Distrust(vm, s, nil) {
			require.True(t, p.Fatal)
			require.Equal(t, "spec.vm.networks[1].tap.bridge", p.Path)
			require.Contains(t, p.Message, "allowedBridges in the manager's configuration")
			before, _, _ := strings.Cut(p.Message, ";")
			got = append(got, before)
		}
		require.Equal(t, row.want, strings.Join(got, ""))
	}
}

// Guests on a bridge can use only their card's address, unless the bridge or the range of the address is unfiltered.
func TestTapsAreFiltered(t *testing.T) {
	t.Parallel()
	vm := sample(t, func(vm *v1.VirtualMachine) {
		vm.Spec.VM.Networks = []v1.Network{{Tap: &v1.Tap{}}, {Tap: &v1.Tap{Bridge: "br1"}}, {User: &v1.UserNetwork{}}}
	})
	open := &addresses.Lease{Lease: vmspec.Lease{Address: "10.66.10.14/24"}}
	for _, row := range []struct {
		given objects.Given
		want  []*bool
	}{
		{objects.Given{}, []*bool{new(true), new(true), nil}},
		{objects.Given{Unfiltered: []string{"br0"}}, []*bool{nil, new(true), nil}},
		{objects.Given{Unfiltered: []string{"*"}}, []*bool{nil, nil, nil}},
		{objects.Given{Lease: open}, []*bool{new(false), new(true), nil}},
	} {
		text, err := objects.Config(vm, row.given)
		require.NoError(t, err)
		var file struct {
			Runner config.Config `yaml:"/Runner"`
		}
		_, err = yamlfile.Decode("config.yaml", text, &file)
		require.NoError(t, err)
		var got []*bool
		for _, n := range file.Runner.VM.Network {
			got = append(got, n.Filter)
		}
		require.Equal(t, row.want, got)
	}
}

// A pod with more rights mounts a volume that an untrusted image or a data source may have filled only if the
// administrator trusts the claim: the volume could contain a kept VM type or a link to a device.
func TestUntrustedVolumes(t *testing.T) {
	t.Parallel()
	own := func(annotations map[string]string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Labels: objects.Labels(sample(t, nil)), Annotations: annotations}
	}
	emulated := func(vm *v1.VirtualMachine) {
		vm.Spec.VM.Accelerator = "tcg"
		vm.Spec.Image = &v1.Image{Source: "evil.example/x:1"}
	}
	files := func(vm *v1.VirtualMachine) {
		vm.Spec.VM.Disks[0].VolumeClaimTemplate.Spec.VolumeMode = new(corev1.PersistentVolumeFilesystem)
		vm.Spec.VM.Disks[0].VolumeClaimTemplate.Spec.Selector = nil
	}
	claims := func(existing map[string]metav1.ObjectMeta, changes ...func(*v1.VirtualMachine)) (*v1.VirtualMachine,
		[]objects.Claim,
	) {
		vm := sample(t, func(vm *v1.VirtualMachine) {
			for _, change := range changes {
				change(vm)
			}
		})
		all, err := objects.Claims(vm, settings(), objects.Existing{Claims: existing})
		require.NoError(t, err)
		return vm, all
	}
	_, made := claims(nil, emulated, files)
	for _, c := range made {
		require.Equal(t, "the image evil.example/x:1", c.Apply.Annotations[objects.AnnotationUntrusted], c.Name)
	}
	_, made = claims(nil, emulated)
	require.NotContains(t, made[1].Apply.Annotations, objects.AnnotationUntrusted, "a block device has no files")

	both := map[string]metav1.ObjectMeta{"runner-data-test-vm-0": own(nil), "system-disk-test-vm-0": own(nil)}
	_, kept := claims(both, emulated, files)
	for _, c := range kept {
		patch, err := c.Mark()
		require.NoError(t, err)
		require.JSONEq(t, `{"metadata": {"annotations": {"vmoperator.jdrupes.org/untrusted": "the image evil.example/x:1"}}}`, string(patch))
	}

	both["runner-data-test-vm-0"] = own(map[string]string{objects.AnnotationUntrusted: "the image evil.example/x:1"})
	vm, later := claims(both)
	problems := objects.Distrust(vm, settings(), later)
	require.Len(t, problems, 1)
	require.Equal(t, "the files in the volume of claim runner-data-test-vm-0 are not trusted, because of the image evil.example/x:1, and the VM's pod gets "+
		"privileged for spec.vm.accelerator (auto), root for spec.vm.accelerator (auto); run the VM with spec.vm.accelerator tcg, or kvmResource in the manager's configuration, "+
		"or ask the administrator to check them and add the claim to trustedClaims in the manager's configuration", problems[0].Message)
	trusting := settings()
	trusting.Trust.Claims = []string{"runner-data-test-vm-0"}
	require.Empty(t, objects.Distrust(vm, trusting, later))
	trusting.Trust.Claims = []string{"*"}
	require.Empty(t, objects.Distrust(vm, trusting, later))
	vm, later = claims(both, func(vm *v1.VirtualMachine) { vm.Spec.VM.Accelerator = "tcg" })
	require.Empty(t, objects.Distrust(vm, settings(), later))

	vm, filled := claims(nil, files, func(vm *v1.VirtualMachine) {
		vm.Spec.VM.Disks[0].VolumeClaimTemplate.Spec.DataSource = &corev1.TypedLocalObjectReference{
			Kind: "PersistentVolumeClaim", Name: "theirs",
		}
	})
	require.Contains(t, objects.Distrust(vm, settings(), filled)[0].Message,
		"because of spec.vm.disks[0].volumeClaimTemplate.spec.dataSource")
	both["runner-data-test-vm-0"] = own(nil)
	vm, looked := claims(both, files, func(vm *v1.VirtualMachine) {
		vm.Spec.VM.Disks[0].VolumeClaimTemplate.Spec.DataSource = &corev1.TypedLocalObjectReference{
			Kind: "PersistentVolumeClaim", Name: "theirs",
		}
	})
	require.Empty(t, objects.Distrust(vm, settings(), looked), "the annotation was removed")
}

// A VM can't set labels and annotations that give its pod more rights or another identity.
func TestMetadataThatIsNotTaken(t *testing.T) {
	t.Parallel()
	of := func(keys ...string) map[string]string {
		all := map[string]string{}
		for _, key := range keys {
			all[key] = "x"
		}
		return all
	}
	kept := of("note", "example.org/team", "app.kubernetes.io/part-of", "k8s.v1.cni.cncf.io/networks",
		"kubernetes.io/egress-bandwidth", "cluster-autoscaler.kubernetes.io/safe-to-evict")
	dropped := of("container.apparmor.security.beta.kubernetes.io/runner", "seccomp.security.alpha.kubernetes.io/pod",
		"container.seccomp.security.alpha.kubernetes.io/runner",
		"kubernetes.io/config.mirror", "cdi.k8s.io/x", "devices.nri.io/container.runner", "io.kubernetes.cri-o.Devices",
		"io.katacontainers.config.hypervisor.path", "run.oci.hooks.stdout",
		"dev.gvisor.spec.mount.a.source", "kubectl.kubernetes.io/last-applied-configuration",
		"vmoperator.jdrupes.org/applied", "vmrunner.jdrupes.org/cmVersion",
		"statefulset.kubernetes.io/pod-name", "controller-revision-hash", "topology.kubernetes.io/zone")
	vm := sample(t, func(vm *v1.VirtualMachine) {
		vm.Annotations, vm.Labels = map[string]string{}, of("app.kubernetes.io/name", "app.kubernetes.io/instance",
			"statefulset.kubernetes.io/pod-name")
		for _, keys := range []map[string]string{kept, dropped} {
			for key, value := range keys {
				vm.Annotations[key] = value
			}
		}
	})
	template := statefulSet(t, vm, settings(), "").Spec.Template
	for key := range kept {
		require.Contains(t, template.Annotations, key)
	}
	for key := range dropped {
		require.NotEqual(t, "x", template.Annotations[key], key)
	}
	require.NotContains(t, template.Labels, "statefulset.kubernetes.io/pod-name")
	require.Equal(t, "test-vm", template.Labels[objects.LabelInstance])
}

// Every pod uses the service account that the roles are bound to and that the admission policy restricts.
func TestAccountIsThatOfThePolicy(t *testing.T) {
	t.Parallel()
	require.Equal(t, objects.ServiceAccount,
		*statefulSet(t, sample(t, nil), settings(), "").Spec.Template.Spec.ServiceAccountName)
	for file, text := range map[string]string{
		"admission-policy.yaml":       "'^system:serviceaccount:[^:]+:" + objects.ServiceAccount + "$'",
		"manager/runner-account.yaml": "kind: ServiceAccount\n  name: " + objects.ServiceAccount,
	} {
		content, err := os.ReadFile(filepath.Join("..", "..", "..", "deploy", filepath.FromSlash(file)))
		require.NoError(t, err)
		require.Contains(t, string(content), text, file)
	}
}
