package cluster

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "vmop/api/v1"
	"vmop/manager/web/fleet"
	"vmop/runner/control"
	"vmop/runner/status"
	"vmop/test/wait"
	"vmop/vmtypes"
	"vmop/vmtypes/plan"
)

// stock provides the type standard. Package manager tests its plans.
type stock struct{}

func (stock) Names(context.Context) ([]string, error) { return []string{"standard"}, nil }

func (stock) Describe(ctx context.Context, name string) (about vmtypes.Description, err error) {
	t, err := vmtypes.Source{}.Library().Load(ctx, name)
	if err == nil {
		about = t.Describe()
	}
	return about, err
}

func (stock) Plan(_ context.Context, vm *v1.VirtualMachine) (*plan.Plan, error) {
	if strings.Contains(vm.Name, "odd") {
		return nil, fleet.Faults{{Path: "spec.vm.maximumCpus", Message: "want an even number"}}
	}
	return &plan.Plan{QEMU: plan.Process{
		Executable: "qemu", Args: []plan.Option{{Flag: "-m", Value: vm.Spec.VM.MaximumRAM.String()}},
	}}, nil
}

func (stock) Module(_ context.Context, _ *v1.VirtualMachine, name string) (string, error) {
	return vmtypes.StockModule(name)
}

// A VM is drafted from a form, checked, and created by the API server.
func TestNewVM(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	ctx := t.Context()
	offer, err := p.Offer(ctx)
	require.NoError(t, err)
	require.Equal(t, "standard", offer.Type)
	about, err := p.VMType(ctx, "standard")
	require.NoError(t, err)
	require.Equal(t, "standard", about.Name)
	_, err = p.VMType(ctx, "none-such")
	require.Contains(t, refused(t, err), "none-such")

	require.NotContains(t, offer.RunPolicies, "AlwaysOn", "it would start the VM, which is another right")
	draft := &fleet.Draft{
		Name: "web", Type: "standard", RunPolicy: "Manual",
		CPUs: 2, RAM: 1 << 30, CD: true, Medium: "debian.iso", Network: "user",
		Disks: []fleet.Disk{{Size: 20 << 30, Class: "fast"}, {Size: 1 << 30}},
		User:  "ann", Keys: []string{"ssh-ed25519 AAAA"}, Password: true,
	}
	text, err := p.Draft(ctx, draft)
	require.NoError(t, err)
	check, err := p.Check(ctx, "web", &fleet.Definition{Text: text})
	require.NoError(t, err)
	require.Empty(t, check.Faults)
	require.Equal(t, "-m 1Gi", check.Plan[1].Text)
	_, err = p.Get("web")
	require.ErrorIs(t, err, fleet.ErrNotFound, "it was only checked")

	text = strings.Replace(text, "state: Stopped", "state: Running", 1)
	require.NoError(t, p.Create(ctx, "alice", "web", strings.Replace(text, fleet.NewPassword, "$6$canary", 1), ""))
	_, err = p.Get("web")
	require.NoError(t, err)
	vm := p.resource("web")
	require.Equal(t, v1.Stopped, vm.Spec.VM.State, "to start it is another right")
	require.Equal(t, v1.Manual, vm.Spec.RunPolicy)
	require.Equal(t, "fast", *vm.Spec.VM.Disks[0].VolumeClaimTemplate.Spec.StorageClassName)
	require.Equal(t, "disk2", vm.Spec.VM.Disks[1].VolumeClaimTemplate.Metadata.Name)
	require.Contains(t, string(vm.Spec.CloudInit.UserData.Raw), "canary")
	require.Equal(t, []string{"Create: alice has requested: create"}, p.events("web"))
	require.ErrorIs(t, p.Create(ctx, "alice", "web", text, ""), fleet.ErrExists)
	_, err = p.Check(ctx, "web", &fleet.Definition{Text: text})
	require.ErrorIs(t, err, fleet.ErrExists)

	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: "system-disk-web-0", Namespace: p.Name}}
	claim.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	claim.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: *vm.Spec.VM.MaximumRAM}
	require.NoError(t, p.admin.Create(ctx, claim))
	wait.Until(t, func() bool {
		left, err := p.Left(ctx, "web")
		return err == nil && len(left) == 1 && left[0] == "PersistentVolumeClaim system-disk-web-0"
	})
}

// A setup of Windows from a CD without drivers gets hardware that Windows supports, unless the draft or an image
// decides otherwise.
func TestDriversOfSetups(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	about, err := p.VMType(t.Context(), "windows")
	require.NoError(t, err)
	require.Equal(t, []int64{4, 8 << 30, 64 << 30}, []int64{about.CPUs, about.RAM, about.Disk})
	require.Equal(t, "diskBus: sata, networkCard: e1000e", about.Without)
	for want, d := range map[string]fleet.Draft{
		"    options:\n      diskBus: sata\n      networkCard: e1000e\n": {},
		"    options:\n      diskBus: virtio\n      networkCard: e1000e\n": {
			Options: map[string]string{"diskBus": "virtio"},
		},
		"    options:\n      virtioDrivers: virtio-win.iso\n": {
			Options: map[string]string{"virtioDrivers": "virtio-win.iso"},
		},
	} {
		d.Name, d.Type, d.Medium, d.CD = "win", "windows", "win11.iso", true
		text, err := p.Draft(t.Context(), &d)
		require.NoError(t, err)
		require.Contains(t, text, want)
	}
	text, err := p.Draft(t.Context(), &fleet.Draft{Name: "win", Type: "windows"})
	require.NoError(t, err)
	require.NotContains(t, text, "options")
}

// All errors in a definition are found together, with their fields.
func TestFaultsOfDefinitions(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	head := "apiVersion: vmoperator.jdrupes.org/v1\nkind: VirtualMachine\nmetadata: {name: odd}\n"
	for text, want := range map[string]string{
		"a: [": "line 1: ",
		"kind: Pod\nmetadata: {name: x, namespace: other}\n": "line 1: apiVersion: must be vmoperator.jdrupes.org/v1\n" +
			"line 1: kind: must be VirtualMachine\nline 2: metadata.name: must be odd\n" +
			"line 2: metadata.namespace: must be " + p.Name,
		head + "spec:\n  vm:\n    maximumCpus: 2\n    currentCpus: 3\n": "line 7: spec.vm.currentCpus: must be at most ",
		head + "spec:\n  vm:\n    maximumCpus: 2\n    cpu: 3\n":         "line 7: spec.vm.cpu: there is no such field (did you mean currentCpus or maximumCpus?)",
		head + "spec:\n  vm:\n    maximumCpus: 2\n":                     "line 6: spec.vm.maximumCpus: want an even",
		head + "spec:\n  cloudInit:\n    userData: (kept as it is)\n  vm: {maximumCpus: 2}\n": "line 6: " +
			"spec.cloudInit.userData: there is no value to keep; leave the key out",
		head + "spec:\n  vm:\n    maximumCpus: 2\n    disks: [{cdrom: {image: 'http://…@x/y'}}]\n": "the password of " +
			"http://…@x/y is not known; write it",
	} {
		check, err := p.Check(t.Context(), "odd", &fleet.Definition{Text: text})
		require.NoError(t, err, text)
		require.True(t, strings.HasPrefix(check.Faults.Error(), want), "%s\n%s\nis not\n%s", text, check.Faults, want)
	}
	_, err := p.Draft(t.Context(), &fleet.Draft{Options: map[string]string{"a": "["}})
	require.ErrorContains(t, err, "spec.vm.options.a: ")
}

const secretive = `
apiVersion: vmoperator.jdrupes.org/v1
kind: VirtualMachine
metadata: {name: web, labels: {tier: front}, annotations: {argocd/whole: canary-annotation}}
spec:
  cloudInit: {userData: {password: canary-user}, metaData: {key: canary-meta}, networkConfig: {wifi: canary-net}}
  vm:
    maximumCpus: 4
    maximumRam: 2Gi
    display: {spice: {proxyUrl: "socks5://me:canary-proxy@p:1"}}
    disks: [{cdrom: {image: "https://me:canary-cd@x/y.iso"}}]
`

// A definition is shown without secrets, and hidden secrets stay when it is changed.
func TestDefinitionsAreChanged(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	ctx := t.Context()
	apply := p.KubectlCommand(ctx, "--namespace", p.Name, "apply", "-f", "-")
	apply.Stdin = strings.NewReader(secretive)
	out, err := apply.CombinedOutput()
	require.NoError(t, err, "%s", out)
	p.await("web", "it is shown", func(*fleet.VM) bool { return true })
	d, err := p.Definition(ctx, "web")
	require.NoError(t, err)
	require.NotContains(t, d.Text, "canary")
	require.NotContains(t, d.Text, "last-applied")
	require.Contains(t, d.Text, "https://…@x/y.iso")

	p.runs("web") // changes its status, not its definition
	d.Text = strings.Replace(d.Text, "tier: front", "tier: back", 1)
	d.Text = strings.Replace(d.Text, "maximumCpus: 4", "currentCpus: 3\n    maximumCpus: 8", 1)
	current := fleet.Change{Path: "vm.currentCpus", Operation: "add", DesiredValue: 3.0}
	maximum := fleet.Change{Path: "vm.maximumCpus", Operation: "replace", CurrentValue: 4.0, DesiredValue: 8.0}
	check, err := p.Check(ctx, "web", d)
	require.NoError(t, err)
	require.Empty(t, check.Faults)
	require.True(t, check.Running)
	require.Empty(t, check.Now, "the running machine has no rule for it")
	require.Equal(t, []fleet.Change{current, maximum}, check.Later)
	p.runner.plan.Rules = plan.Rules{plan.CPUs{Boot: 4, Maximum: 4, ID: "cpu%d"}}
	check, err = p.Check(ctx, "web", d)
	require.NoError(t, err)
	require.Equal(t, []fleet.Change{current}, check.Now)
	require.Equal(t, []fleet.Change{maximum}, check.Later)
	require.EqualValues(t, 4, *p.resource("web").Spec.VM.MaximumCPUs, "it was only checked")
	p.runner.expected = &control.Forecast{Later: []status.Change{{Path: "vm.currentCpus"}}}
	check, err = p.Check(ctx, "web", d)
	require.NoError(t, err)
	require.Equal(t, []fleet.Change{maximum}, check.Now, "the runner decides, not the rules")
	require.Equal(t, []fleet.Change{current}, check.Later)
	require.Empty(t, check.Warnings)
	p.runner.expected = &control.Forecast{Fault: "vm.network[0].link: can't be down"}
	check, err = p.Check(ctx, "web", d)
	require.NoError(t, err)
	require.Contains(t, check.Warnings, "the running VM doesn't accept this definition: spec.vm.networks[0] (link): can't be down")
	require.Equal(t, []fleet.Change{maximum}, check.Later)

	require.NoError(t, p.Replace(ctx, "alice", "web", d))
	vm := p.resource("web")
	require.EqualValues(t, 8, *vm.Spec.VM.MaximumCPUs)
	require.Equal(t, "back", vm.Labels["tier"])
	require.Equal(t, "https://me:canary-cd@x/y.iso", vm.Spec.VM.Disks[0].CDROM.Image)
	require.Equal(t, "socks5://me:canary-proxy@p:1", vm.Spec.VM.Display.Spice.ProxyURL)
	require.Contains(t, string(vm.Spec.CloudInit.UserData.Raw), "canary-user")
	require.Equal(t, "canary-annotation", vm.Annotations["argocd/whole"])
	require.Contains(t, vm.Annotations, corev1.LastAppliedConfigAnnotation, "kubectl still knows what it has applied")
	require.Equal(t, []string{"Edit: alice has requested: edit"}, p.events("web"))
	wait.Until(t, func() bool { // as soon as this manager knows
		return p.Replace(ctx, "bob", "web", d) == fleet.ErrChanged
	})
	_, err = p.Check(ctx, "web", d)
	require.ErrorIs(t, err, fleet.ErrChanged)
	require.NotContains(t, p.log.String(), "canary")
}
