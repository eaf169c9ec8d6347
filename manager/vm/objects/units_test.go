package objects_test

import (
	"encoding/json"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	applyappsv1 "k8s.io/client-go/applyconfigurations/apps/v1"
	applycorev1 "k8s.io/client-go/applyconfigurations/core/v1"

	v1 "vmop/api/v1"
	"vmop/manager/vm/objects"
	"vmop/runner/config"
)

// sample returns the documented VM after a change.
func sample(t *testing.T, change func(*v1.VirtualMachine)) *v1.VirtualMachine {
	t.Helper()
	vm := podDefinition(t, filepath.Join("testdata", "sample.vm.yaml"))
	if change != nil {
		change(vm)
	}
	return vm
}

func parsed(t *testing.T, vm *v1.VirtualMachine) *config.Config {
	t.Helper()
	text, err := objects.Config(vm, objects.Given{})
	require.NoError(t, err)
	c, _, err := config.Parse("config.yaml", text)
	require.NoError(t, err, "%s", text)
	return c
}

func statefulSet(t *testing.T, vm *v1.VirtualMachine, s objects.Settings,
	secret string,
) *applyappsv1.StatefulSetApplyConfiguration {
	t.Helper()
	claims, err := objects.Claims(vm, s, objects.Existing{})
	require.NoError(t, err)
	set, err := objects.StatefulSet(vm, s, claims, secret, 1, false)
	require.NoError(t, err)
	return set
}

func TestMedium(t *testing.T) {
	t.Parallel()
	for image, want := range map[string]string{
		"":                                       "",
		"live.iso":                               "/var/local/vmop-image-repository/live.iso",
		"fedora/38/live cd.iso":                  "/var/local/vmop-image-repository/fedora/38/live cd.iso",
		"./live.iso":                             "/var/local/vmop-image-repository/live.iso",
		"a/../live.iso":                          "/var/local/vmop-image-repository/live.iso",
		"https://example.test/a.iso":             "https://example.test/a.iso",
		"http://example.test/a?b=%20":            "http://example.test/a?b=%20",
		"/var/local/vmop-image-repository/a.iso": "/var/local/vmop-image-repository/a.iso",
		"file:///var/local/vmop-image-repository/a%20b.iso": "/var/local/vmop-image-repository/a b.iso",
		"file:a.iso": "/var/local/vmop-image-repository/a.iso",
		"a:b.iso":    "/var/local/vmop-image-repository/a:b.iso",
	} {
		c := parsed(t, sample(t, func(vm *v1.VirtualMachine) { vm.Spec.VM.Disks[1].CDROM.Image = image }))
		require.Equal(t, want, c.VM.Drives[1].File, image)
	}
}

// Users can name only files in the image repository, so they can't access the runner's token or, in a privileged pod,
// the node's disks.
func TestImagesAreInTheRepository(t *testing.T) {
	t.Parallel()
	for _, file := range []string{
		"/dev/sda", "../../../dev/sda", "a/../../x", "..", ".", "/", "/var/local/vmop-image-repository/../x",
		"/var/local/vmop-image-repository",
		"/var/local/vmop-image-repository-2/a", "/var/run/secrets/kubernetes.io/serviceaccount/token",
	} {
		for path, set := range map[string]func(*v1.VirtualMachine){
			"spec.vm.disks[1].cdrom.image": func(vm *v1.VirtualMachine) { vm.Spec.VM.Disks[1].CDROM.Image = file },
			"spec.vm.kernel.image":         func(vm *v1.VirtualMachine) { vm.Spec.VM.Kernel = &v1.Kernel{Image: file} },
			"spec.vm.kernel.initrd": func(vm *v1.VirtualMachine) {
				vm.Spec.VM.Kernel = &v1.Kernel{Image: "a", Initrd: file}
			},
		} {
			_, err := objects.Config(sample(t, set), objects.Given{})
			require.ErrorContains(t, err, path+" is "+strconv.Quote(file)+": use a file in the image repository")
		}
	}
	_, err := objects.Config(sample(t, func(vm *v1.VirtualMachine) {
		vm.Spec.VM.Kernel = &v1.Kernel{Image: "a", Initrd: "b,/etc/passwd"}
	}), objects.Given{})
	require.EqualError(t, err, `spec.vm.kernel.initrd is "b,/etc/passwd": it has a comma, which QEMU uses to separate `+
		`files; rename the file`)
	for _, url := range []string{
		"file:///dev/sda", "file:../x", "file:/etc/passwd",
		"file:///var/local/vmop-image-repository/%2e%2e/x",
	} {
		vm := sample(t, func(vm *v1.VirtualMachine) { vm.Spec.VM.Disks[1].CDROM.Image = url })
		_, err := objects.Config(vm, objects.Given{})
		require.ErrorContains(t, err, "spec.vm.disks[1].cdrom.image", url)
	}
}

// Options of a VM type can name files: the pod mounts the image repository if the text of an option may be a file name.
func TestFilesOfOptionsAreInTheRepository(t *testing.T) {
	t.Parallel()
	mounts := func(options string) bool {
		vm := sample(t, func(vm *v1.VirtualMachine) {
			vm.Spec.VM.Disks = vm.Spec.VM.Disks[:1]
			vm.Spec.VM.Options = &runtime.RawExtension{Raw: []byte(options)}
		})
		require.Equal(t, objects.ImageRepositoryDir, parsed(t, vm).ImageRepository)
		pod := statefulSet(t, vm, objects.DefaultSettings(), "").Spec.Template.Spec
		return slices.ContainsFunc(pod.Volumes, func(v applycorev1.VolumeApplyConfiguration) bool {
			return *v.Name == "image-repository"
		})
	}
	require.True(t, mounts(`{"virtioDrivers": "virtio-win.iso"}`))
	require.True(t, mounts(`{"all": [{"source": "/var/local/vmop-image-repository/x"}]}`))
	require.False(t, mounts(`{"diskBus": "sata", "tpm": false, "n": 1.5}`))
}

func TestOutdated(t *testing.T) {
	t.Parallel()
	s, secret := objects.DefaultSettings(), ""
	is := sample(t, nil)
	was := statefulSet(t, is, s, secret)
	pod := &metav1.ObjectMeta{Annotations: was.Spec.Template.Annotations}
	require.False(t, objects.Outdated(pod, was))
	require.False(t, objects.Outdated(&metav1.ObjectMeta{}, was), "not the manager's")
	for name, set := range map[string]func(*v1.VirtualMachine){
		"CPUs": func(vm *v1.VirtualMachine) { vm.Spec.VM.CurrentCPUs = new(int32(1)) },
		"node": func(vm *v1.VirtualMachine) { vm.Spec.NodeName = "other" },
	} {
		require.True(t, objects.Outdated(pod, statefulSet(t, sample(t, set), s, secret)), name)
	}
	labelled := sample(t, func(vm *v1.VirtualMachine) { vm.Labels = map[string]string{"a": "b"} })
	require.False(t, objects.Outdated(pod, statefulSet(t, labelled, s, secret)), "pods get those at once")
}

func TestMemoryIsWholeMebibytes(t *testing.T) {
	t.Parallel()
	for size, want := range map[string]string{
		"1G": "953 MiB", "1Gi": "1 GiB", "1.5Gi": "1536 MiB", "1073741825": "1 GiB", "4e9": "3814 MiB", "1Mi": "1 MiB",
	} {
		quantity := resource.MustParse(size)
		c := parsed(t, sample(t, func(vm *v1.VirtualMachine) {
			vm.Spec.VM.MaximumRAM, vm.Spec.VM.CurrentRAM = &quantity, nil
		}))
		require.Equal(t, want, c.VM.MaximumRAM.String(), size)
		require.Equal(t, want, c.VM.WithDefaults().CurrentRAM.String(), size)
	}
	_, err := objects.Config(sample(t, func(vm *v1.VirtualMachine) {
		vm.Spec.VM.MaximumRAM = new(resource.MustParse("1k"))
	}), objects.Given{})
	require.EqualError(t, err, "spec.vm.maximumRam is 1k: must be at least 1Mi")
}

// The instance ID stays the same as long as cloud-init's data are unchanged.
func TestInstance(t *testing.T) {
	t.Parallel()
	instance := func(change func(*v1.VirtualMachine)) string {
		vm := podDefinition(t, filepath.Join("testdata", "masqueraded.vm.yaml"))
		change(vm)
		seed, err := parsed(t, vm).CloudInit.Seed(vm.Name)
		require.NoError(t, err)
		require.Contains(t, string(seed.MetaData), `local-hostname: "masqueraded"`)
		require.Contains(t, string(seed.UserData), `passwd: "0644"`)
		return string(seed.MetaData)
	}
	before := instance(func(*v1.VirtualMachine) {})
	require.Equal(t, before, instance(func(vm *v1.VirtualMachine) {
		vm.Generation++
		vm.Spec.VM.State, vm.Spec.VM.CurrentCPUs = v1.Stopped, new(int32(1))
	}))
	require.NotEqual(t, before, instance(func(vm *v1.VirtualMachine) { vm.Spec.CloudInit.NetworkConfig = nil }))
}

func TestImage(t *testing.T) {
	t.Parallel()
	const original = "ghcr.io/mnlipp/org.jdrupes.vmoperator.runner.qemu-arch:latest"
	for want, image := range map[string]*v1.Image{
		"example.test/vmop/runner:1.2.3 ": nil,
		"a:1 Never":                       {Source: "a:1", PullPolicy: corev1.PullNever},
		"example.test/b/c ":               {Repository: "example.test", Path: "b/c"},
		"example.test/b/c:2 Always": {
			Repository: "example.test", Path: "b/c", Version: "2",
			PullPolicy: corev1.PullAlways,
		},
	} {
		container := statefulSet(t, sample(t, func(vm *v1.VirtualMachine) {
			vm.Spec.Image = image
		}), settings(), "").Spec.Template.Spec.Containers[0]
		policy := ""
		if container.ImagePullPolicy != nil {
			policy = string(*container.ImagePullPolicy)
		}
		require.Equal(t, want, *container.Image+" "+policy)
	}
	// VM-Operator's resource definition has added its runner to its VMs.
	ours := sample(t, func(vm *v1.VirtualMachine) {
		vm.Spec.Image, vm.Spec.VM.Accelerator = &v1.Image{Source: original}, "kvm"
	})
	require.Equal(t, "example.test/vmop/runner:1.2.3",
		*statefulSet(t, ours, settings(), "").Spec.Template.Spec.Containers[0].Image)
	require.Empty(t, objects.Distrust(ours, settings(), nil))
}

func TestResources(t *testing.T) {
	t.Parallel()
	requests := func(change func(*v1.VirtualMachine, *objects.Settings)) string {
		s := settings()
		vm := sample(t, func(vm *v1.VirtualMachine) { change(vm, &s) })
		text, err := json.Marshal(statefulSet(t, vm, s, "").Spec.Template.Spec.Containers[0].Resources)
		require.NoError(t, err)
		return string(text)
	}
	// 4Gi/1.25, and 96Mi + 4*4Mi + 8Gi/512 for QEMU.
	require.Equal(t, `{"requests":{"cpu":"1","memory":"3405Mi"}}`,
		requests(func(*v1.VirtualMachine, *objects.Settings) {}))
	require.Equal(t, `{"requests":{"cpu":"2","memory":"4224Mi"}}`,
		requests(func(_ *v1.VirtualMachine, s *objects.Settings) {
			s.CPUOvercommit, s.RAMOvercommit = 1, 1
		}))
	require.Equal(t, `{"requests":{"cpu":"333m","memory":"6682Mi"}}`,
		requests(func(vm *v1.VirtualMachine, s *objects.Settings) {
			vm.Spec.VM.CurrentCPUs, vm.Spec.VM.CurrentRAM, s.CPUOvercommit = new(int32(1)), nil, 3
		}))
	require.Equal(t, `{"limits":{"cpu":"3"}}`, requests(func(vm *v1.VirtualMachine, _ *objects.Settings) {
		vm.Spec.Resources = &v1.Resources{Limits: corev1.ResourceList{"cpu": resource.MustParse("3")}}
	}))
	require.Equal(t, `{"limits":{"example.test/kvm":"1"},"requests":{"cpu":"7"}}`,
		requests(func(vm *v1.VirtualMachine, s *objects.Settings) {
			vm.Spec.Resources = &v1.Resources{Requests: corev1.ResourceList{"cpu": resource.MustParse("7")}}
			s.KVMResource, s.VhostNetResource = "example.test/kvm", "example.test/vhost-net" // for taps
		}))
	require.Equal(t, `{"limits":{"example.test/kvm":"1","example.test/vhost-net":"1"},"requests":{"cpu":"7"}}`,
		requests(func(vm *v1.VirtualMachine, s *objects.Settings) {
			vm.Spec.Resources = &v1.Resources{Requests: corev1.ResourceList{"cpu": resource.MustParse("7")}}
			vm.Spec.VM.Networks = []v1.Network{{Tap: &v1.Tap{}}, {Masquerade: &v1.PrivateNetwork{}}}
			s.KVMResource, s.VhostNetResource = "example.test/kvm", "example.test/vhost-net"
		}))
	require.Equal(t, `{"requests":{"cpu":"7"}}`,
		requests(func(vm *v1.VirtualMachine, s *objects.Settings) { // a privileged pod has all devices
			vm.Spec.Resources = &v1.Resources{Requests: corev1.ResourceList{"cpu": resource.MustParse("7")}}
			vm.Spec.VM.Networks = []v1.Network{{Masquerade: &v1.PrivateNetwork{}}}
			s.VhostNetResource = "example.test/vhost-net"
		}))
}

func TestLimitThatEndsTheVM(t *testing.T) {
	t.Parallel()
	limited := func(size string) *objects.Problem {
		return objects.TightLimit(sample(t, func(vm *v1.VirtualMachine) {
			vm.Spec.Resources = &v1.Resources{
				Limits: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse(size)},
			}
		}))
	}
	require.Nil(t, limited("8320Mi"))
	problem := limited("8Gi")
	require.Contains(t, problem.String(), "spec.resources.limits.memory: it is 8Gi, but the VM may need 8320Mi")
	require.False(t, problem.Fatal)
}

func TestDisplaySecret(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name     string
		display  *v1.Display
		existing []string
		want     string
		missing  bool
	}{
		{"SPICE", &v1.Display{Spice: &v1.Spice{}}, nil, "test-vm-display-secret", true},
		{"not wanted", &v1.Display{Spice: &v1.Spice{GenerateSecret: new(false)}, VNC: &v1.VNC{}}, nil, "", false},
		{
			"the user's own, though not wanted", &v1.Display{Spice: &v1.Spice{GenerateSecret: new(false)}},
			[]string{"mine"},
			"mine", false,
		},
		{"VNC alone", &v1.Display{VNC: &v1.VNC{}}, nil, "test-vm-display-secret", true},
		{"nothing to guard", &v1.Display{}, nil, "", false},
		{"several", &v1.Display{Spice: &v1.Spice{}}, []string{"b", "a", "c"}, "a", false},
	} {
		name, missing := objects.DisplaySecretName(sample(t, func(vm *v1.VirtualMachine) {
			vm.Spec.VM.Display = row.display
		}), row.existing)
		require.Equal(t, row.want, name, row.name)
		require.Equal(t, row.missing, missing, row.name)
	}
	_, err := objects.DisplaySecret(sample(t, nil), settings(), strings.NewReader("short"))
	require.EqualError(t, err, "make a display password for test-vm: unexpected EOF")
}

func TestService(t *testing.T) {
	t.Parallel()
	on := settings()
	on.LoadBalancer = &objects.ServiceMetadata{Labels: map[string]string{"a": "1", "b": "1", objects.LabelName: "mine"}}
	service := func(s objects.Settings, own *v1.LoadBalancerService) map[string]string {
		made, err := objects.Service(sample(t, func(vm *v1.VirtualMachine) { vm.Spec.LoadBalancerService = own }), s)
		require.NoError(t, err)
		if made == nil {
			return nil
		}
		require.Equal(t, int32(5910), *made.Spec.Ports[0].Port)
		return made.Labels
	}
	labels := objects.Labels(sample(t, nil))
	plus := func(more map[string]string) map[string]string {
		for key, value := range labels {
			more[key] = value
		}
		return more
	}
	require.Nil(t, service(settings(), nil), "off in general")
	require.Nil(t, service(settings(), &v1.LoadBalancerService{Labels: map[string]*v1.Entry{"a": new(v1.Entry("2"))}}),
		"a VM alone doesn't switch it on")
	require.Nil(t, service(on, &v1.LoadBalancerService{}), "off for this VM")
	require.Equal(t, plus(map[string]string{"a": "1", "b": "1"}), service(on, nil))
	require.Equal(t, plus(map[string]string{"a": "2", "c": "3"}), service(on, &v1.LoadBalancerService{
		Labels: map[string]*v1.Entry{
			"a": new(v1.Entry("2")), "b": nil, "c": new(v1.Entry("3")),
			objects.LabelInstance: nil,
		},
	}))
	made, err := objects.Service(sample(t, func(vm *v1.VirtualMachine) { vm.Spec.VM.Display = nil }), on)
	require.NoError(t, err)
	require.Nil(t, made, "no screen to be reached")
}

func TestClaimsOfBothGenerations(t *testing.T) {
	t.Parallel()
	vm := podDefinition(t, filepath.Join("testdata", "bridged.vm.yaml"))
	require.Equal(t, []string{
		"runner-data-bridged-0", "bridged-runner-data", "system-disk-bridged-0", "bridged-system-disk",
		"disk-2-bridged-0", "bridged-disk-1",
	}, objects.ClaimNames(vm))
	its := metav1.ObjectMeta{Labels: objects.Labels(vm)}
	claims, err := objects.Claims(vm, settings(), objects.Existing{Claims: map[string]metav1.ObjectMeta{
		"bridged-runner-data": its, "bridged-system-disk": its, "system-disk-bridged-0": its, "bridged-disk-1": its,
		"disk-2-bridged-0": {},
	}})
	require.NoError(t, err)
	var names []string
	for _, c := range claims {
		names = append(names, c.Volume+" "+c.Name)
		require.Nil(t, c.Apply)
		require.True(t, c.Stale)
		require.Nil(t, c.Problem)
	}
	require.Equal(t, []string{
		"runner-data bridged-runner-data", "system-disk system-disk-bridged-0",
		"disk-2 bridged-disk-1",
	}, names)
}

// A VM with a claim suffix uses only claims with this suffix, so that claims from its snapshot stay separate from its
// earlier ones.
func TestClaimsWithSuffix(t *testing.T) {
	t.Parallel()
	vm := sample(t, func(vm *v1.VirtualMachine) { vm.Spec.ClaimNameSuffix = "r1" })
	require.Equal(t, []string{"runner-data-test-vm-0.r1", "system-disk-test-vm-0.r1"}, objects.ClaimNames(vm)[:2])
	require.Equal(t, []string{"runner-data", "system-disk"}, objects.VolumeNames(vm)[:2])
	its := metav1.ObjectMeta{Labels: objects.Labels(vm)}
	claims, err := objects.Claims(vm, settings(), objects.Existing{Claims: map[string]metav1.ObjectMeta{
		"runner-data-test-vm-0.r1": its, "system-disk-test-vm-0": its, "test-vm-system-disk": its,
	}})
	require.NoError(t, err)
	require.Nil(t, claims[0].Apply)
	require.Equal(t, "system-disk-test-vm-0.r1", claims[1].Name)
	require.NotNil(t, claims[1].Apply)
	require.Equal(t, claims[1].Name, *claims[1].Apply.Name)
	changes := objects.PodChanges(pod(t, sample(t, nil)), statefulSet(t, vm, settings(), "secret"))
	require.Len(t, changes, 1)
	require.True(t, objects.OtherVolumes(changes[0]))
}

// A claim belongs to a VM if its labels match. Claims of other VMs or programs are never mounted, and a VM doesn't
// start with an empty disk if an existing claim could be its own.
func TestClaimsOfOthers(t *testing.T) {
	t.Parallel()
	labels := func(name, instance string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Labels: map[string]string{objects.LabelName: name, objects.LabelInstance: instance}}
	}
	const first, newer = "system-disk-test-vm-0", "test-vm-system-disk"
	disk := "spec.vm.disks[0].volumeClaimTemplate: "
	another := disk + "the claim " + first + " belongs to the VM other (label app.kubernetes.io/instance); give the disk another name"
	unknown := func(name string) string {
		return disk + "the claim " + name + " does not have this VM's labels; " +
			"give the disk another name or, to let the VM use its data, add the labels " +
			"(kubectl label --overwrite pvc " + name + " app.kubernetes.io/name=vm-runner app.kubernetes.io/instance=test-vm)"
	}
	for name, row := range map[string]struct {
		existing map[string]metav1.ObjectMeta
		used     string // "" if a claim is created
		problem  string
	}{
		"nothing": {nil, "", ""},
		"its own": {map[string]metav1.ObjectMeta{first: labels("vm-runner", "test-vm")}, first, ""},
		"another VM's": {
			map[string]metav1.ObjectMeta{first: labels("vm-runner", "other")},
			first,
			another,
		},
		"another program's": {
			map[string]metav1.ObjectMeta{first: labels("postgresql", "test-vm")},
			first,
			unknown(first),
		},
		"without an owner":  {map[string]metav1.ObjectMeta{first: {}}, first, unknown(first)},
		"by the newer name": {map[string]metav1.ObjectMeta{newer: labels("vm-runner", "test-vm")}, newer, ""},
		"that, and one of another": {map[string]metav1.ObjectMeta{
			newer: labels("vm-runner", "test-vm"),
			first: labels("x", "y"),
		}, newer, ""},
		"another VM's by that name": {
			map[string]metav1.ObjectMeta{newer: labels("vm-runner", "other")}, "", "",
		},
		"without an owner, by the newer name": {map[string]metav1.ObjectMeta{newer: {}}, newer, unknown(newer)},
	} {
		vm := sample(t, nil)
		claims, err := objects.Claims(vm, settings(), objects.Existing{Claims: row.existing})
		require.NoError(t, err)
		c := claims[1]
		if row.used == "" {
			require.NotNil(t, c.Apply, name)
			require.Equal(t, first, c.Name, name)
			continue
		}
		require.Nil(t, c.Apply, name)
		require.Equal(t, row.used, c.Name, name)
		require.Equal(t, row.problem == "", c.Stale, "%s: what isn't the VM's is not changed", name)
		var said string
		for _, c := range claims {
			if c.Problem != nil {
				require.True(t, c.Problem.Fatal)
				said = c.Problem.String()
			}
		}
		require.Equal(t, row.problem, said, name)
	}
	claims, err := objects.Claims(sample(t, nil), settings(),
		objects.Existing{Claims: map[string]metav1.ObjectMeta{"runner-data-test-vm-0": labels("vm-runner", "other")}})
	require.NoError(t, err)
	require.Equal(t, "metadata.name", claims[0].Problem.Path)
	require.Contains(t, claims[0].Problem.Message, "give the VM another name")
}

// A VM can't set the annotations that the manager writes to its claims.
func TestAnnotationsOfClaims(t *testing.T) {
	t.Parallel()
	claims, err := objects.Claims(sample(t, func(vm *v1.VirtualMachine) {
		vm.Spec.VM.Disks[0].VolumeClaimTemplate.Metadata.Annotations = map[string]string{
			objects.AnnotationUntrusted: "", objects.AnnotationStorage: "1Ti", "note": "a",
		}
	}), settings(), objects.Existing{})
	require.NoError(t, err)
	require.NotContains(t, claims[1].Apply.Annotations, objects.AnnotationUntrusted)
	require.Equal(t, "40Gi", claims[1].Apply.Annotations[objects.AnnotationStorage])
	require.Equal(t, "a", claims[1].Apply.Annotations["note"])
}

// Data for cloud-init are a mapping, or a text with any of its headers; other values are rejected with their field.
func TestCloudInitAsText(t *testing.T) {
	t.Parallel()
	data := func(user, vendor string) func(*v1.VirtualMachine) {
		return func(vm *v1.VirtualMachine) {
			vm.Spec.CloudInit = &v1.CloudInit{UserData: &runtime.RawExtension{Raw: []byte(user)}}
			if vendor != "" {
				vm.Spec.CloudInit.VendorData = &runtime.RawExtension{Raw: []byte(vendor)}
			}
		}
	}
	seed, err := parsed(t, sample(t, data(`"#!/bin/sh\necho hello\n"`, `{"packages":["a"]}`))).CloudInit.Seed("web")
	require.NoError(t, err)
	require.Equal(t, "#!/bin/sh\necho hello\n", string(seed.UserData))
	require.Equal(t, "#cloud-config\npackages:\n  - a\n", string(seed.VendorData))
	for _, wrong := range []string{"[]", "1", "true"} {
		_, err := objects.Config(sample(t, data(wrong, wrong)), objects.Given{})
		require.ErrorContains(t, err, "spec.cloudInit.userData: must be a mapping, or text such as a script", wrong)
		require.ErrorContains(t, err, "spec.cloudInit.vendorData: must be a mapping, or text", wrong)
	}
}

// A CD image with an unsupported URL scheme isn't taken as a file name.
func TestMediaOfOtherProtocols(t *testing.T) {
	t.Parallel()
	_, err := objects.Config(sample(t, func(vm *v1.VirtualMachine) {
		vm.Spec.VM.Disks[1].CDROM.Image = "nfs://1.2.3.4/x.iso"
	}), objects.Given{})
	require.EqualError(t, err, `spec.vm.disks[1].cdrom.image is "nfs://1.2.3.4/x.iso": CDs can't be read over nfs: `+
		"use a file in the image repository, such as live.iso, or a URL that begins with http:// or https://")
}
