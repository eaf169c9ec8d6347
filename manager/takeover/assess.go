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
	"vmop/manager/decide"
	"vmop/manager/objects"
	"vmop/manager/pool"
)

// Options are what a takeover depends on besides what there is.
type Options struct {
	// Settings are those of our manager, with the configuration that it will have.
	Settings objects.Settings
	// Config is what was found in that configuration.
	Config []Finding
	// Check returns what the VM's type finds wrong with it. The modules are those of the ConfigMap with its custom
	// types; nil without one.
	Check func(vm *v1.VirtualMachine, modules map[string]string) []Finding
}

// Assess returns what becomes of a namespace.
func Assess(n *Namespace, o Options) *Report {
	r := &Report{Managers: n.managers()}
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
		m.add(Blocks, reconciler+".trustedClaims", fmt.Sprintf(
			"%d claims have files of VM-Operator's runners, and their VMs' pods get more rights than others: %s",
			len(r.TrustedClaims), strings.Join(r.TrustedClaims, ", ")), "write them there, as --print-config does")
	}
	for _, name := range r.Managers {
		m.add(Changes, "", "the manager of VM-Operator runs by the Deployment "+name,
			"before ours starts: kubectl scale deployment "+name+" --replicas 0")
	}
	if len(m.Findings) > 0 {
		r.Subjects = append(r.Subjects, m)
	}
	return r
}

// Limits of names, which the API server has, too.
const (
	longestVM   = 48
	longestPool = 40
)

// decode reads a resource of one of our kinds. What it has besides is reported.
func decode(u *unstructured.Unstructured, into any, s *Subject, longest int) bool {
	content := runtime.DeepCopyJSON(u.Object)
	delete(content, "status")
	err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(content, into, true)
	if strict, is := runtime.AsStrictDecodingError(err); is {
		for _, fault := range strict.Errors() {
			path := strings.Trim(strings.TrimPrefix(fault.Error(), "unknown field "), `"`)
			s.add(Changes, path, "has no meaning here, and is left out by the API server", "")
		}
		err = nil
	}
	if err != nil {
		s.add(Blocks, "", "it can't be read: "+err.Error(), "kubectl apply --dry-run=server says in which field")
		return false
	}
	if name := u.GetName(); len(name) > longest || len(validation.IsDNS1123Label(name)) > 0 {
		s.add(Blocks, "metadata.name", fmt.Sprintf("want a DNS label of at most %d characters", longest),
			"make another one of it with such a name; the dataSource of its disks can be the old claims")
	}
	return true
}

func assessPool(u *unstructured.Unstructured) Subject {
	s := Subject{Kind: "VmPool", Name: u.GetName()}
	var p v1.VmPool
	if !decode(u, &p, &s, longestPool) {
		return s
	}
	if text := p.Spec.Retention; text != "" {
		if _, err := pool.ParseRetention(text); err != nil {
			s.add(Blocks, "spec.retention", strings.TrimPrefix(err.Error(), "spec.retention "), "")
		}
	}
	if !s.Blocked() {
		s.add(Kept, "", "who has which VM, and the permissions", "")
	}
	return s
}

// assessVM also returns the claims that have to be trusted.
func (n *Namespace) assessVM(u *unstructured.Unstructured, o Options) (s Subject, untrusted []string) {
	s = Subject{Kind: "VirtualMachine", Name: u.GetName(), RunsIn: n.runsIn(u.GetName())}
	var vm v1.VirtualMachine
	if !decode(u, &vm, &s, longestVM) {
		return s, nil
	}
	vm.Spec.VMType.Source = cmp.Or(vm.Spec.VMType.Source, "standard")
	if s.RunsIn != "" {
		s.add(Kept, "", "it runs in the pod "+s.RunsIn+" of VM-Operator, and gets no other as long as that is there",
			"vmmanager takeover --apply --stop "+s.Name+" shuts it down")
	}
	if set, is := n.statefulSets[s.Name]; is && StatefulSetOfOriginal(&set) {
		s.StatefulSet = true
		s.add(Changes, "", "its StatefulSet is of a VM-Operator before 3.4, and can't be converted",
			"vmmanager takeover --apply deletes it; claims stay")
	}
	contradictions(&vm, &s)
	types, known := n.configMaps[cmp.Or(vm.Spec.VMType.ConfigMap, o.Settings.VMTypes)]
	before := &decide.Snapshot{VM: &vm, Settings: o.Settings}
	if known {
		before.Types = &objects.Metadata{}
	}
	if v := decide.PreviewType(before); v != nil && v.Obstacle() != nil && v.Reason != decide.ReasonNotTrusted {
		path, message, _ := strings.Cut(v.Message, ": ") // what isn't trusted is a difference, below
		s.add(Blocks, path, message, map[string]string{
			decide.ReasonTypeRefused:  "vmrunner vmtype new NAME begins one from standard",
			decide.ReasonTypesMissing: "kubectl create configmap " + vm.Spec.VMType.ConfigMap + " --from-file=FOLDER",
		}[v.Reason])
	}
	if _, err := objects.Config(&vm, objects.Given{}); err != nil {
		path, message, _ := strings.Cut(err.Error(), " ")
		s.add(Blocks, strings.TrimSuffix(path, ":"), message, "")
	} else if o.Check != nil {
		s.Findings = append(s.Findings, o.Check(&vm, types.Data)...)
	}
	untrusted = n.disks(&vm, o.Settings, &s)
	n.differences(&vm, &s)
	return s, untrusted
}

// disks says which claims a VM uses, and returns those that have to be trusted for it.
func (n *Namespace) disks(vm *v1.VirtualMachine, settings objects.Settings, s *Subject) (untrusted []string) {
	claims, err := objects.Claims(vm, settings, objects.Existing{Claims: n.claims})
	if err != nil {
		s.add(Blocks, "spec.vm.disks", err.Error(), "")
		return nil
	}
	known := slices.ContainsFunc(claims, func(c objects.Claim) bool { return c.UID != "" || c.Apply == nil })
	for _, c := range claims {
		path := cmp.Or(c.Path, "the runner's data")
		switch {
		case c.Problem != nil && c.Problem.Fatal:
			s.add(Blocks, path, c.Problem.Message, "")
		case c.Apply == nil:
			s.add(Kept, path, "the claim "+c.Name, "")
		case known:
			s.add(Changes, path, "there is no claim of VM-Operator: "+c.Name+" is made, and is empty", "")
		default:
			s.add(Kept, path, "the claim "+c.Name+" is made at the first start", "")
		}
		for _, kept := range c.Kept {
			s.add(Changes, kept.Path, kept.Message, "")
		}
	}
	all := settings
	all.Trust.Claims = []string{"*"}
	rest := objects.Distrust(vm, all, claims)
	for _, p := range rest {
		if p.Path == "spec.image" && runnerOfOriginal(vm) {
			continue // which is said already
		}
		s.add(Blocks, p.Path, p.Message, "")
	}
	if len(objects.Distrust(vm, settings, claims)) > len(rest) {
		for _, c := range claims {
			if c.Untrusted != "" && c.Apply == nil && !slices.Contains(settings.Trust.Claims, c.Name) {
				untrusted = append(untrusted, c.Name)
			}
		}
	}
	if secret := n.secretOf(vm.Name); secret != "" {
		s.add(Kept, "", "the display's password: the Secret "+secret, "")
	}
	return untrusted
}
