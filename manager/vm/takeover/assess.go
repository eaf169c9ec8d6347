package takeover

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"

	v1 "vmop/api/v1"
	"vmop/manager/pool"
	"vmop/manager/vm/decide"
	"vmop/manager/vm/objects"
)

// Options contains what a takeover depends on, in addition to the existing objects.
type Options struct {
	// Settings are the settings of our manager, from its future configuration.
	Settings objects.Settings
	// Config contains the findings about that configuration.
	Config []Finding
	// Check returns the problems that the VM's type finds. modules come from the ConfigMap with its custom types;
	// nil without a ConfigMap.
	Check func(vm *v1.VirtualMachine, modules map[string]string) []Finding
}

// Assess returns how a takeover affects a namespace.
func Assess(n *Namespace, o Options) *Report {
	r := &Report{Managers: n.activeManagers()}
	for i := range n.vms {
		s, untrusted := n.assessVM(&n.vms[i], o)
		r.Subjects = append(r.Subjects, s)
		r.TrustedClaims = append(r.TrustedClaims, untrusted...)
	}
	for i := range n.pools {
		r.Subjects = append(r.Subjects, assessPool(&n.pools[i]))
	}
	m := Subject{Kind: "manager", Name: ManagerName, Findings: slices.Clone(o.Config)}
	if len(r.TrustedClaims) > 0 {
		m.addFinding(Blocks, reconciler+".trustedClaims", fmt.Sprintf(
			"%d claims have files of VM-Operator's runners, and their VMs' pods get more rights than others: %s",
			len(r.TrustedClaims), strings.Join(r.TrustedClaims, ", ")), "write them there, as --print-config does")
	}
	for _, name := range r.Managers {
		m.addFinding(Changes, "", "the manager of VM-Operator runs by the Deployment "+name,
			"before ours starts: kubectl scale deployment "+name+" --replicas 0")
	}
	if len(m.Findings) > 0 {
		r.Subjects = append(r.Subjects, m)
	}
	return r
}

// Limits for names, which the API server also enforces.
const (
	longestVM   = 48
	longestPool = 40
)

// decodeResource reads a resource of one of our kinds, and reports unknown fields.
func decodeResource(u *unstructured.Unstructured, into any, s *Subject, longest int) bool {
	content := runtime.DeepCopyJSON(u.Object)
	delete(content, "status")
	err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(content, into, true)
	if strict, is := runtime.AsStrictDecodingError(err); is {
		for _, fault := range strict.Errors() {
			path := strings.Trim(strings.TrimPrefix(fault.Error(), "unknown field "), `"`)
			s.addFinding(Changes, path, "has no meaning here, and is left out by the API server", "")
		}
		err = nil
	}
	if err != nil {
		s.addFinding(Blocks, "", "it can't be read: "+err.Error(), "kubectl apply --dry-run=server shows the field")
		return false
	}
	if name := u.GetName(); len(name) > longest || len(validation.IsDNS1123Label(name)) > 0 {
		s.addFinding(Blocks, "metadata.name", fmt.Sprintf("must be a DNS label of at most %d characters", longest),
			"create a copy with a valid name; the dataSource of its disks can be the old claims")
	}
	return true
}

func assessPool(u *unstructured.Unstructured) Subject {
	s := Subject{Kind: "VmPool", Name: u.GetName()}
	var p v1.VmPool
	if !decodeResource(u, &p, &s, longestPool) {
		return s
	}
	if text := p.Spec.Retention; text != "" {
		if _, err := pool.ParseRetention(text); err != nil {
			s.addFinding(Blocks, "spec.retention", strings.TrimPrefix(err.Error(), "spec.retention "), "")
		}
	}
	if !s.Blocked() {
		s.addFinding(Kept, "", "who has which VM, and the permissions", "")
	}
	return s
}

// assessVM also returns the claims that must be trusted.
func (n *Namespace) assessVM(u *unstructured.Unstructured, o Options) (s Subject, untrusted []string) {
	s = Subject{Kind: "VirtualMachine", Name: u.GetName(), RunsIn: n.runsIn(u.GetName())}
	var vm v1.VirtualMachine
	if !decodeResource(u, &vm, &s, longestVM) {
		return s, nil
	}
	vm.Spec.VMType.Source = cmp.Or(vm.Spec.VMType.Source, "standard")
	if s.RunsIn != "" {
		s.addFinding(Kept, "",
			"it runs in the pod "+s.RunsIn+" of VM-Operator, and gets no other pod while that pod exists",
			"vmmanager takeover --apply --stop "+s.Name+" shuts it down")
	}
	if set, is := n.statefulSets[s.Name]; is && StatefulSetOfOriginal(&set) {
		s.StatefulSet = true
		s.addFinding(Changes, "", "its StatefulSet is of a VM-Operator before 3.4, and can't be converted",
			"vmmanager takeover --apply deletes it; claims stay")
	}
	findContradictions(&vm, &s)
	types, known := n.configMaps[cmp.Or(vm.Spec.VMType.ConfigMap, o.Settings.VMTypes)]
	before := &decide.Snapshot{VM: &vm, Settings: o.Settings}
	if known {
		before.Types = &objects.Metadata{}
	}
	if v := decide.PreviewType(before); v != nil && v.Obstacle() != nil && v.Reason != decide.ReasonNotTrusted {
		path, message, _ := strings.Cut(v.Message, ": ") // an untrusted VM is reported below
		s.addFinding(Blocks, path, message, map[string]string{
			decide.ReasonTypeRefused:  "vmrunner vmtype new NAME begins one from standard",
			decide.ReasonTypesMissing: "kubectl create configmap " + vm.Spec.VMType.ConfigMap + " --from-file=FOLDER",
		}[v.Reason])
	}
	if _, err := objects.Config(&vm, objects.Given{}); err != nil {
		path, message, _ := strings.Cut(err.Error(), " ")
		s.addFinding(Blocks, strings.TrimSuffix(path, ":"), message, "")
	} else if o.Check != nil {
		s.Findings = append(s.Findings, o.Check(&vm, types.Data)...)
	}
	untrusted = n.findClaims(&vm, o.Settings, &s)
	n.findDifferences(&vm, &s)
	return s, untrusted
}

// findClaims reports which claims a VM uses, and returns the claims that must be trusted for it.
func (n *Namespace) findClaims(vm *v1.VirtualMachine, settings objects.Settings, s *Subject) (untrusted []string) {
	claims, err := objects.Claims(vm, settings, objects.Existing{Claims: n.claims})
	if err != nil {
		s.addFinding(Blocks, "spec.vm.disks", err.Error(), "")
		return nil
	}
	known := slices.ContainsFunc(claims, func(c objects.Claim) bool { return c.UID != "" || c.Apply == nil })
	for _, c := range claims {
		path := cmp.Or(c.Path, "the runner's data")
		switch {
		case c.Problem != nil && c.Problem.Fatal:
			s.addFinding(Blocks, path, c.Problem.Message, "")
		case c.Apply == nil:
			s.addFinding(Kept, path, "the claim "+c.Name, "")
		case known:
			s.addFinding(Changes, path, "there is no claim of VM-Operator: "+c.Name+" is created, and is empty", "")
		default:
			s.addFinding(Kept, path, "the claim "+c.Name+" is created at the first start", "")
		}
		for _, kept := range c.Kept {
			s.addFinding(Changes, kept.Path, kept.Message, "")
		}
	}
	all := settings
	all.Trust.Claims = []string{"*"}
	rest := objects.Distrust(vm, all, claims)
	for _, p := range rest {
		if p.Path == "spec.image" && runnerOfOriginal(vm) {
			continue // already reported
		}
		s.addFinding(Blocks, p.Path, p.Message, "")
	}
	if len(objects.Distrust(vm, settings, claims)) > len(rest) {
		for _, c := range claims {
			if c.Untrusted != "" && c.Apply == nil && !slices.Contains(settings.Trust.Claims, c.Name) {
				untrusted = append(untrusted, c.Name)
			}
		}
	}
	if secret := n.secretOf(vm.Name); secret != "" {
		s.addFinding(Kept, "", "the display's password: the Secret "+secret, "")
	}
	return untrusted
}
