package manager

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"sync"

	v1 "vmop/api/v1"
	"vmop/internal/yamlfile"
	"vmop/manager/vm/class"
	"vmop/manager/vm/controller"
	"vmop/manager/vm/objects"
	"vmop/runner/config"
	"vmop/runner/status/k8s"
	"vmop/vmspec"
	"vmop/vmtypes"
	"vmop/vmtypes/distribution"
	"vmop/vmtypes/evaluate"
	"vmop/vmtypes/plan"
	"vmop/vmtypes/sandbox"
)

// mostVerdicts is the maximum size of the cache. A verdict takes several hundred bytes.
const mostVerdicts = 20_000

// typeChecker implements controller.TypeChecker. It computes the launch plan in the same way as the runner, on a
// simulated host. It evaluates stock types in this process. It evaluates custom types in separate processes, one
// at a time, because each may take 300 MB. It caches verdicts by their inputs.
type typeChecker struct {
	child chan struct{} // allows one child process

	mu       sync.Mutex
	verdicts map[verdictKey]verdict
	stock    map[string]*vmtypes.Type
}

type verdictKey [sha256.Size]byte

// verdict is the result of a type for a machine.
type verdict struct {
	refusal  string // why the type returned no plan; "" means success
	accepted controller.Accepted
}

func newTypeChecker() *typeChecker {
	return &typeChecker{
		child: make(chan struct{}, 1), verdicts: map[verdictKey]verdict{}, stock: map[string]*vmtypes.Type{},
	}
}

// CheckType implements controller.TypeChecker.
func (c *typeChecker) CheckType(ctx context.Context, m *v1.VirtualMachine, modules map[string]string) (
	accepted controller.Accepted, err error,
) {
	key, err := verdictKeyOf(m, modules)
	if err != nil {
		return accepted, err
	}
	c.mu.Lock()
	is, known := c.verdicts[key]
	c.mu.Unlock()
	if !known {
		if is, err = c.verdictOf(ctx, m, modules); err != nil {
			return accepted, err
		}
		c.mu.Lock()
		if len(c.verdicts) >= mostVerdicts {
			clear(c.verdicts)
		}
		c.verdicts[key] = is
		c.mu.Unlock()
	}
	if is.refusal != "" {
		return accepted, controller.TypeRefused{Message: is.refusal}
	}
	return is.accepted, nil
}

// verdictKeyOf returns the hash of a verdict's inputs: the machine, and the modules of a custom type.
func verdictKeyOf(m *v1.VirtualMachine, modules map[string]string) (key verdictKey, err error) {
	hash := sha256.New()
	machine := m.Spec.VM
	machine.State = "" // not an input of the plan
	to := json.NewEncoder(hash)
	parts := []any{m.Name, m.Spec.VMType.Source, m.Spec.CloudInit, m.Spec.Provisioning, machine}
	if err := to.Encode(parts); err != nil {
		return key, fmt.Errorf("hash the machine of VM %s: %w", m.Name, err)
	}
	if !vmtypes.IsStock(m.Spec.VMType.Source) {
		for _, name := range slices.Sorted(maps.Keys(modules)) {
			fmt.Fprintf(hash, "%d %s %d\n%s", len(name), name, len(modules[name]), modules[name])
		}
	}
	hash.Sum(key[:0])
	return key, nil
}

// verdictOf asks the type. An error means that the verdict is unknown.
func (c *typeChecker) verdictOf(ctx context.Context, m *v1.VirtualMachine, modules map[string]string) (verdict, error) {
	made, sizes, err := c.planOf(ctx, m, modules)
	var refused *noPlan
	switch {
	case errors.As(err, &refused):
		return verdict{refusal: refused.text}, nil
	case err != nil:
		return verdict{}, err
	}
	return verdict{accepted: controller.Accepted{
		Architecture: nodeArchitecture(made.GuestArchitecture()), Sizes: sizes,
	}}, nil
}

// nodeArchitecture returns the architecture of the nodes that can run a guest with KVM, or "". QEMU and
// Kubernetes have different names for architectures.
func nodeArchitecture(guest string) string {
	switch guest {
	case "x86_64", "i386":
		return "amd64"
	case "aarch64":
		return "arm64"
	}
	return ""
}

// noPlan is the error of a type that returns no plan for a VM.
type noPlan struct {
	text string // in the terms of the resource
	err  error  // in the terms of the runner's configuration; nil if equal to text
}

func (n *noPlan) Error() string { return n.text }
func (n *noPlan) Unwrap() error { return n.err }

// planOf returns the type's plan, and the sizes that the type decides. The error is a *noPlan if the type returns no
// plan.
func (c *typeChecker) planOf(ctx context.Context, m *v1.VirtualMachine, modules map[string]string) (
	made *plan.Plan, sizes vmspec.Sizes, err error,
) {
	text, err := objects.Config(class.WithoutTypeSizes(m), objects.Given{})
	if err != nil {
		return nil, sizes, &noPlan{text: err.Error()}
	}
	cfg, _, err := config.Parse("spec", text)
	if err != nil {
		return nil, sizes, &noPlan{k8s.InResource(withoutPlaces(err)), err}
	}
	source, err := sourceOf(modules)
	if err != nil {
		return nil, sizes, &noPlan{text: err.Error()}
	}
	if _, _, err := source.Library().Source(cfg.VMType); err != nil {
		const inFolder = "custom types are looked for in " + objects.VMTypesDir
		return nil, sizes, &noPlan{text: typePath + ": " + strings.Replace(err.Error(), inFolder, ofYourOwn, 1)}
	}
	spec := cfg.VM
	if spec.UUID == "" {
		spec.UUID = anyUUID
	}
	spec, _ = vmspec.ResolveResources(spec.WithOtherDefaults(), modeInPod) // modeInPod never fails
	made, sizes, err = c.launchType(ctx, source, cfg.VMType, spec, hostFor(cfg))
	switch {
	case err == nil:
		return made, sizes, nil
	case ctx.Err() != nil:
		return nil, sizes, context.Cause(ctx)
	case errors.As(err, new(*vmtypes.FieldsError)), errors.As(err, new(*vmtypes.FaultsError)):
		return nil, sizes, &noPlan{k8s.InResource(err.Error()), err}
	case isOfType(err):
		return nil, sizes, &noPlan{err.Error(), err}
	}
	return nil, sizes, err
}

// typePath is the path of a VM's type.
const typePath = "spec.vmType.source"

// anyUUID represents the UUID that the runner generates.
const anyUUID = "1b4e28ba-2fa1-4d2b-883f-0016d3cca427"

// ofYourOwn explains the origin of custom types to users, who don't see the pod's folders.
const ofYourOwn = "custom types come from a ConfigMap (spec.vmType.configMap, or vmTypesConfigMap of the manager's " +
	"configuration) or a registry (spec.vmType.image)"

// launchType makes a type decide sizes and compute a plan.
func (c *typeChecker) launchType(ctx context.Context, source vmtypes.Source, name string,
	spec vmspec.Spec, host vmtypes.Host,
) (made *plan.Plan, sizes vmspec.Sizes, err error) {
	if vmtypes.IsStock(name) {
		t, err := c.stockType(ctx, name)
		if err == nil {
			sizes, err = t.Sizes(ctx, spec, host.Files)
		}
		if err == nil {
			made, err = t.Launch(ctx, spec.FillSizes(sizes), host)
		}
		return made, sizes, err
	}
	err = c.runAlone(ctx, func() error {
		types := evaluate.NewGroup(ctx)
		defer types.Close()
		t, err := types.Add(evaluate.Type{Source: source, Name: name})
		if err == nil {
			sizes, err = t.Sizes(ctx, spec, host.Files)
		}
		if err == nil {
			made, err = t.Launch(ctx, spec.FillSizes(sizes), host)
		}
		return err
	})
	return made, sizes, err
}

// runAlone runs a function that starts a child process, while no other such function is running.
func (c *typeChecker) runAlone(ctx context.Context, do func() error) error {
	select {
	case c.child <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	defer func() { <-c.child }()
	return do()
}

// stockType loads a stock type once, because loading takes longer than using it.
func (c *typeChecker) stockType(ctx context.Context, name string) (*vmtypes.Type, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if t := c.stock[name]; t != nil {
		return t, nil
	}
	t, err := vmtypes.Source{}.Library().Load(ctx, name)
	if err == nil {
		c.stock[name] = t
	}
	return t, err
}

// isOfType reports whether an error is about the type rather than about this process.
func isOfType(err error) bool {
	limits := []error{sandbox.ErrMemory, sandbox.ErrCPU, sandbox.ErrDepth, sandbox.ErrAnswer, fs.ErrNotExist}
	for _, limit := range limits {
		if errors.Is(err, limit) {
			return true
		}
	}
	return errors.As(err, new(*vmtypes.Error)) || errors.As(err, new(vmtypes.Errors))
}

// withoutPlaces formats errors without their lines, which belong to a file that the user does not see.
func withoutPlaces(err error) string {
	var faults yamlfile.Faults
	if !errors.As(err, &faults) {
		return err.Error()
	}
	lines := make([]string, len(faults))
	for i, f := range faults {
		lines[i] = strings.TrimPrefix(f.Path+": "+f.Message, ": ")
		if f.Hint != "" {
			lines[i] += " (" + f.Hint + ")"
		}
	}
	return strings.Join(lines, "\n")
}

// sourceOf returns the modules of a ConfigMap as the folder in the pod.
func sourceOf(modules map[string]string) (vmtypes.Source, error) {
	s := vmtypes.Source{Dir: objects.VMTypesDir, Modules: map[string]string{}, Refused: map[string]string{}}
	for name, text := range modules {
		switch {
		case !strings.HasSuffix(name, ".star"):
		case len(text) > vmtypes.MaxModule:
			s.Refused[name] = fmt.Sprintf("%s has %d bytes, a module at most %d", name, len(text), vmtypes.MaxModule)
		default:
			s.Modules[name] = text
		}
	}
	if len(s.Modules) > vmtypes.MaxModules {
		return s, fmt.Errorf("there are %d VM types, but at most %d are allowed", len(s.Modules), vmtypes.MaxModules)
	}
	return s, nil
}

// hostFor describes the runner's container, where the plan will be computed: the files of the image, and KVM if
// the VM may use it. The type decides the guest's architecture.
func hostFor(c *config.Config) vmtypes.Host {
	files := slices.Concat(distribution.Files("debian-12"), distribution.Files("debian-12-arm64"))
	accelerated := []vmspec.Accelerator{"", vmspec.AcceleratorAuto, vmspec.AcceleratorKVM}
	host := vmtypes.Host{
		DataDir: c.DataDir, RuntimeDir: c.RuntimeDir, Arch: "x86_64",
		KVM:                slices.Contains(accelerated, c.VM.Accelerator),
		HasDisplayPassword: true,
		Files:              vmtypes.Files{Folder: objects.ImageRepositoryDir, Only: true},
		Exists: func(path string) bool { // only the runner knows the images
			_, image := vmspec.Inside(objects.ImageRepositoryDir, path)
			return image || slices.Contains(files, path)
		},
	}
	if c.CloudInit != nil {
		host.CloudInitImage = c.RuntimeDir + "/cloud-init.img"
	}
	if c.Sysprep != nil {
		host.SysprepImage = c.RuntimeDir + "/sysprep.img"
	}
	return host
}

// modeInPod returns the file type of a path in a VM's pod: paths in /dev are disks.
func modeInPod(path string) (fs.FileMode, error) {
	if strings.HasPrefix(path, "/dev/") {
		return fs.ModeDevice, nil
	}
	return 0, nil
}
