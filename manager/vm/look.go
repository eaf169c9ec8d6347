package vm

import (
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "vmop/api/v1"
	"vmop/manager/objects"
)

// visit is one look at a VM: what was found, and what came of it.
type visit struct {
	situation
	settings objects.Settings
	memory   *memory

	// What the mirror has.
	statefulSet, configMap, service *metadata
	types                           *metadata // the ConfigMap with the VM's custom types
	secrets                         []metadata
	existing                        map[string]metav1.ObjectMeta // claims

	// What steps have found out for later ones.
	accepted   verdict
	secret     string // the name of the display secret
	claims     []objects.Claim
	distrusted bool               // the definition must not come into force
	frozen     bool               // no pod must start from it
	configured bool               // the ConfigMap was written in this visit
	changes    []v1.PendingChange // what needs a new pod
	decision   decision
	problems   []problem
	again      time.Time

	// Whether what is to be written can wait for its turn, and whether it does.
	epoch            int64 // of the settings, from 1
	resting, delayed bool
}

// problem is something that is not as the definition says.
type problem struct{ reason, message string }

// lookAgain makes the VM be looked at no later than at a time; zero means never.
func (v *visit) lookAgain(at time.Time) {
	if !at.IsZero() && (v.again.IsZero() || at.Before(v.again)) {
		v.again = at
	}
}

// look reads what the mirror has. Nil: there is no such VM.
func (c *reconciler) look(name string) (*visit, error) {
	vm, err := c.mirror.vms.get(name)
	if vm == nil || err != nil {
		return nil, err
	}
	v := &visit{epoch: 1 + c.epoch.Load(), memory: c.memories.of(vm)}
	v.settings = c.opts.Settings() // of this epoch, or newer
	v.vm, v.now = vm, c.opts.Now()
	for _, get := range []struct {
		kind kind
		name string
		into **metadata
	}{
		{statefulSetKind, vm.Name, &v.statefulSet},
		{configMapKind, vm.Name, &v.configMap},
		{serviceKind, vm.Name, &v.service},
		{configMapKind, objects.TypesConfigMap(vm, v.settings), &v.types},
	} {
		if *get.into, err = c.mirror.others[get.kind].get(get.name); err != nil {
			return nil, err
		}
	}
	return v, errors.Join(c.lookForClaims(v), c.lookForSecrets(v), c.lookForPods(v))
}

func (c *reconciler) lookForClaims(v *visit) error {
	v.existing = map[string]metav1.ObjectMeta{}
	for _, name := range objects.ClaimNames(v.vm) {
		claim, err := c.mirror.others[claimKind].get(name)
		if err != nil {
			return err
		}
		if claim != nil {
			v.existing[name] = claim.ObjectMeta
		}
	}
	return nil
}

func (c *reconciler) lookForSecrets(v *visit) error {
	secrets := c.mirror.others[secretKind]
	for _, name := range append(secrets.strangers(v.vm.Name), objects.DisplaySecretOf(v.vm.Name)) {
		secret, err := secrets.get(name)
		if err != nil {
			return err
		}
		if secret != nil && instanceOf(secret) == v.vm.Name {
			v.secrets = append(v.secrets, *secret)
		}
	}
	return nil
}

func (c *reconciler) lookForPods(v *visit) error {
	pod, err := c.mirror.pods.get(podName(v.vm.Name))
	if err != nil {
		return err
	}
	if pod != nil && pod.Labels[objects.LabelInstance] == v.vm.Name {
		v.pod = v.neglected(pod)
		if noticed := unnoticed(pod); !noticed.IsZero() && v.now.Before(noticed) {
			v.lookAgain(noticed)
		}
	}
	for _, name := range c.mirror.pods.strangers(v.vm.Name) {
		stray, err := c.mirror.pods.get(name)
		if err != nil {
			return err
		}
		if stray != nil && stray.Status.Phase != corev1.PodSucceeded && stray.Status.Phase != corev1.PodFailed {
			v.strays = append(v.strays, stray)
		}
	}
	return nil
}

// podName is the name of the pod that the stateful set of a VM makes.
func podName(vm string) string { return vm + "-0" }
