package objects

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	applycorev1 "k8s.io/client-go/applyconfigurations/core/v1"

	v1 "vmop/api/v1"
)

// dataVolume is the name of the volume of DataDir, dataSize its size.
const (
	dataVolume = "runner-data"
	dataSize   = "1Mi"
)

// A Claim is a volume of a VM. It has no owner, so it stays when the VM is deleted. The
// manager never deletes it.
type Claim struct {
	// Name of the claim.
	Name string
	// Volume is its name in the pod.
	Volume string
	// Path is what in the VM asks for it; "" for the volume of DataDir.
	Path string
	// Apply makes the claim. Nil: it exists.
	Apply *applycorev1.PersistentVolumeClaimApplyConfiguration
	// Stale: the claim exists and isn't known to be as the VM asks for. Read it, and
	// write what Change returns.
	Stale bool
	// Problem says why the claim stays as it is, though the VM asks for something
	// else, or why it cannot be used; nil if all is well.
	Problem *Problem
	// Kept says what the claim keeps of that which cannot change in one that exists,
	// where the VM asks for something else.
	Kept []Problem
	// UID of the claim, if it exists.
	UID types.UID
	// Untrusted says why the files in the volume are not trusted; "" if there is no such
	// reason, or there are no files.
	Untrusted string
	// Waits says why the claim can't be made of the snapshot that it is to be made of yet; nil
	// if it can.
	Waits *SourceFault

	wanted *applycorev1.PersistentVolumeClaimApplyConfiguration
	mount  string // where its file system is in the pod; "" for a block device
	fixed  fixed  // what of it can't change
	marked bool   // Untrusted is to be written into the claim
	record origin // what outlives the VM
	filled string // why the files are not trusted with which the volume is filled
	taint  string // why the record is to say that the files are not trusted; "" if it needn't

	readOnly bool // the pod can't write to it
	target   bool // it is for the pod to which the guest is being moved
}

// Existing is what there is of a VM's claims, each by the claim's name.
type Existing struct {
	// Claims are the metadata of those that exist.
	Claims map[string]metav1.ObjectMeta
	// Records are the metadata of their records.
	Records map[string]*Metadata
	// Made are the uids of those that this process has created for the VM, whatever its
	// status says yet.
	Made map[string]types.UID
	// Source is the snapshot of which those are made that don't exist (spec.dataSource); nil:
	// there is none.
	Source *v1.VirtualMachineSnapshot
}

// ClaimNames returns the names that claims of a VM can have. Claims takes the metadata of
// those that exist.
func ClaimNames(vm *v1.VirtualMachine) []string {
	var names []string
	for _, c := range claimsOf(vm) {
		names = append(names, c.name)
		if c.newer != "" {
			names = append(names, c.newer)
		}
	}
	return names
}

// VolumeNames returns the names of a VM's own volumes, by which a snapshot has them: the runner's
// data, then the disks with a claim template.
func VolumeNames(vm *v1.VirtualMachine) []string {
	var names []string
	for _, c := range claimsOf(vm) {
		if !c.target {
			names = append(names, c.volume)
		}
	}
	return names
}

// claimOf is a volume, and the two names that its claim can have: that of a claim
// made by a StatefulSet, and that of later versions of the original. With a suffix it has only the first one.
type claimOf struct {
	volume, name, newer, path string
	mount                     string // where its file system is in the pod; "" for a block device
	disk                      *v1.VolumeClaimTemplate
	target                    bool // it is for the pod to which the guest is being moved
}

// dataClaim is the volume for the data of the runner in the pod with an ordinal.
func dataClaim(vm *v1.VirtualMachine, ordinal int32) claimOf {
	c := claimOf{volume: dataVolume, name: dataVolume + "-" + PodName(vm.Name, ordinal), mount: DataDir}
	if ordinal == 0 {
		c.newer = vm.Name + "-" + dataVolume
	}
	return c
}

func claimsOf(vm *v1.VirtualMachine) []claimOf {
	all := []claimOf{dataClaim(vm, vm.Status.PodOrdinal)}
	templates := 0
	for i, d := range vm.Spec.VM.Disks {
		if d.VolumeClaimTemplate == nil {
			continue
		}
		name := diskName(i, d)
		c := claimOf{
			volume: name, name: name + "-" + vm.Name + "-0", newer: vm.Name + "-" + name,
			path: fmt.Sprintf("spec.vm.disks[%d].volumeClaimTemplate", i), disk: d.VolumeClaimTemplate,
		}
		if onFileSystem(d.VolumeClaimTemplate) {
			c.mount = path.Join(DiskDir, name)
		}
		if d.VolumeClaimTemplate.Metadata.Name == "" { // there, CD drives didn't count
			c.newer = vm.Name + "-disk-" + strconv.Itoa(templates)
		}
		templates++
		all = append(all, c)
	}
	if vm.Status.Migration.Active() {
		next := dataClaim(vm, OtherOrdinal(vm))
		next.target = true
		all = append(all, next)
	}
	for i := range all {
		all[i] = all[i].suffixed(vm)
	}
	return all
}

// suffixed is a claim of a VM that may have been restored.
func (of claimOf) suffixed(vm *v1.VirtualMachine) claimOf {
	if suffix := vm.Spec.ClaimNameSuffix; suffix != "" {
		of.name, of.newer = of.name+"."+suffix, "" // no other VM's: its name has no dot
	}
	return of
}

// Claims returns the claims of a VM: the runner's data, then the disks in their
// order.
func Claims(vm *v1.VirtualMachine, s Settings, existing Existing) ([]Claim, error) {
	var all []Claim
	for _, of := range claimsOf(vm) {
		wanted, err := claim(vm, s, of)
		if err != nil {
			return nil, err
		}
		c := Claim{
			Volume: of.volume, Path: of.path, wanted: wanted, mount: of.mount, fixed: of.fixed(), target: of.target,
		}
		var exists bool
		c.Name, exists = of.among(vm, existing.Claims)
		have := existing.Claims[c.Name]
		if exists {
			c.UID = have.UID
			c.compare(vm, have)
		} else {
			c.Apply, c.filled = wanted, of.filled()
			if !of.target {
				c.fill(vm, existing.Source)
			}
		}
		if of.mount != "" { // only then it has files
			if exists {
				c.record = originOf(existing.Records[c.Name])
				c.Untrusted = foreign(vm, have, existing.Made[c.Name], c.record)
			}
			c.mark(vm, s, have)
		}
		all = append(all, c)
	}
	return all, nil
}

// among returns which of the existing claims is meant, and otherwise the name of the one to
// be created. A VM's own comes first. One without an owner is meant, too: a VM that was
// created to find its disk there must not begin with an empty one.
func (of claimOf) among(vm *v1.VirtualMachine, existing map[string]metav1.ObjectMeta) (name string, exists bool) {
	first, is := existing[of.name]
	newer, there := existing[of.newer]
	switch {
	case is && ownerOf(first) == vm.Name, !there:
		return of.name, is
	case ownerOf(newer) == vm.Name:
		return of.newer, true
	case is, ownerOf(newer) != "":
		return of.name, is
	}
	return of.newer, true
}

// ownerOf returns the VM that a claim belongs to, by its labels, which VM-Operator
// gave all of its claims, too; "" if it is none's.
func ownerOf(claim metav1.ObjectMeta) string {
	if claim.Labels[LabelName] != AppName {
		return ""
	}
	return claim.Labels[LabelInstance]
}

// filled says what a volume has been filled with when it is made; "" is nothing.
func (of claimOf) filled() string {
	if of.disk == nil {
		return ""
	}
	switch spec := of.disk.Spec; {
	case spec.DataSource != nil:
		return of.path + ".spec.dataSource"
	case spec.DataSourceRef != nil:
		return of.path + ".spec.dataSourceRef"
	case spec.VolumeName != "":
		return of.path + ".spec.volumeName"
	case spec.Selector != nil:
		return of.path + ".spec.selector"
	}
	return ""
}

// claimConfiguration is a claim to be applied.
type claimConfiguration = applycorev1.PersistentVolumeClaimApplyConfiguration

// claim returns a claim as the VM asks for it.
func claim(vm *v1.VirtualMachine, s Settings, of claimOf) (*claimConfiguration, error) {
	var spec *applycorev1.PersistentVolumeClaimSpecApplyConfiguration
	labels, annotations := Labels(vm), map[string]string{}
	if of.disk == nil {
		spec = applycorev1.PersistentVolumeClaimSpec().WithAccessModes(corev1.ReadWriteOnce).
			WithResources(applycorev1.VolumeResourceRequirements().
				WithRequests(corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(dataSize)}))
		spec.StorageClassName = s.DataStorageClass
	} else {
		var err error
		spec, err = as[applycorev1.PersistentVolumeClaimSpecApplyConfiguration](of.path+".spec", of.disk.Spec)
		if err != nil {
			return nil, err
		}
		if spec.VolumeMode == nil {
			spec.WithVolumeMode(corev1.PersistentVolumeBlock)
		}
		if len(spec.AccessModes) == 0 {
			spec.WithAccessModes(corev1.ReadWriteOnce)
		}
		labels = maps.Clone(of.disk.Metadata.Labels)
		if labels == nil {
			labels = map[string]string{}
		}
		maps.Copy(labels, Labels(vm))
		for key, value := range of.disk.Metadata.Annotations {
			if !strings.HasPrefix(key, v1.GroupName+"/") { // those are the manager's
				annotations[key] = value
			}
		}
	}
	c := applycorev1.PersistentVolumeClaim(of.name, vm.Namespace).
		WithLabels(labels).WithAnnotations(annotations).WithSpec(spec)
	if size := requested(c); size != "" {
		c.WithAnnotations(map[string]string{AnnotationStorage: size})
	}
	return stamp(c, s)
}

// requested is the size that a claim asks for.
func requested(c *applycorev1.PersistentVolumeClaimApplyConfiguration) string {
	if c.Spec.Resources == nil || c.Spec.Resources.Requests == nil {
		return ""
	}
	size, given := (*c.Spec.Resources.Requests)[corev1.ResourceStorage]
	if !given {
		return ""
	}
	return size.String()
}

// compare sets what the metadata of a claim that exists says.
func (c *Claim) compare(vm *v1.VirtualMachine, have metav1.ObjectMeta) {
	if owner := ownerOf(have); owner != vm.Name {
		c.Problem = c.notOurs(vm, owner)
		return
	}
	c.Stale = have.Annotations[AnnotationApplied] != c.wanted.Annotations[AnnotationApplied]
	if size, err := resource.ParseQuantity(have.Annotations[AnnotationStorage]); err == nil {
		c.Problem = c.shrinks(size)
	}
	c.Kept = c.keeps(noted(have))
}

// notOurs is the problem of a claim that isn't the VM's, whose data it must not get.
func (c *Claim) notOurs(vm *v1.VirtualMachine, owner string) *Problem {
	path, what := c.Path, "disk"
	if path == "" {
		path, what = "metadata.name", "VM"
	}
	if owner != "" {
		return &Problem{Path: path, Fatal: true, Message: fmt.Sprintf(
			"the claim %s belongs to the VM %s (label %s); give the %s another name", c.Name, owner, LabelInstance, what)}
	}
	return &Problem{Path: path, Fatal: true, Message: fmt.Sprintf("the claim %s does not have this VM's labels; "+
		"give the %s another name or, if the VM is to use its data, add the labels "+
		"(kubectl label --overwrite pvc %[1]s %[3]s=%[4]s %[5]s=%[6]s)",
		c.Name, what, LabelName, AppName, LabelInstance, vm.Name)}
}

// mark sets that the files in a volume are not trusted: those that it is filled with when
// it is created, and those that a pod with an untrusted image or untrusted VM types leaves
// there.
func (c *Claim) mark(vm *v1.VirtualMachine, s Settings, have metav1.ObjectMeta) {
	known := cmp.Or(c.Untrusted, have.Annotations[AnnotationUntrusted])
	c.Untrusted = known
	if c.Problem != nil && c.Problem.Fatal {
		return
	}
	why := untrusted(vm, s)
	if rightsOf(vm, s).beyondRestricted() {
		why = "" // it doesn't run
	}
	if c.Apply != nil {
		why = cmp.Or(why, c.filled)
	}
	if why == "" {
		return
	}
	c.Untrusted = cmp.Or(known, why)
	if c.Apply != nil {
		c.Apply.WithAnnotations(map[string]string{AnnotationUntrusted: why})
		return
	}
	c.marked = known == ""
	recorded := c.record.uid == have.UID
	if recorded && c.record.untrusted == "" || !recorded && (known == "" || known == NotMade) {
		c.taint = why
	}
}

// Mark returns the merge patch (RFC 7386) that writes into an existing claim why it is
// Untrusted; nil if it is there. It contains nothing else that the API server could refuse.
func (c *Claim) Mark() ([]byte, error) {
	if !c.marked {
		return nil, nil
	}
	text, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"annotations": map[string]string{AnnotationUntrusted: c.Untrusted},
	}})
	if err != nil {
		return nil, fmt.Errorf("write the mark of the claim %s: %w", c.Name, err)
	}
	return text, nil
}

// shrinks is the problem of a claim that is larger than the VM asks for.
func (c *Claim) shrinks(have resource.Quantity) *Problem {
	size, err := resource.ParseQuantity(requested(c.wanted))
	if err != nil || c.Path == "" || size.Cmp(have) >= 0 {
		return nil
	}
	return &Problem{Path: c.Path + ".spec.resources.requests.storage", Message: fmt.Sprintf(
		"the volume stays at %s: volumes can grow, but not shrink to %s", have.String(), size.String())}
}

// Wanted is the hash of what the VM asks for.
func (c *Claim) Wanted() string { return c.wanted.Annotations[AnnotationApplied] }

// Refused says what it means that the API server does not take the Change of a
// claim, in terms of the VM: the path, what stays, and what would be right. why is the
// server's message.
func (c *Claim) Refused(have *corev1.PersistentVolumeClaim, why string) string {
	size, wanted := have.Spec.Resources.Requests[corev1.ResourceStorage], requested(c.wanted)
	if more, err := resource.ParseQuantity(wanted); err != nil || more.Cmp(size) <= 0 {
		return fmt.Sprintf("%s: the claim %s stays as it is: %s", cmp.Or(c.Path, "the runner's data"), c.Name, why)
	}
	var right string
	switch class := have.Spec.StorageClassName; {
	case have.Status.Phase != corev1.ClaimBound:
		right = "it can grow once it has a volume"
	case class != nil && *class != "":
		right = fmt.Sprintf("request %s, or let the storage class %s expand volumes (allowVolumeExpansion: true)", size.String(), *class)
	default:
		right = fmt.Sprintf("request %s; a volume without a storage class can't grow", size.String())
	}
	return fmt.Sprintf("%s.spec.resources.requests.storage: the claim %s stays at %s and does not grow to %s: %s; %s",
		c.Path, c.Name, size.String(), wanted, right, why)
}

// Unbound says what a claim that has no volume waits for, as far as the claim tells,
// and which field changes that. why is the message of the provisioner of volumes; "" if
// there is none.
func (c *Claim) Unbound(have *corev1.PersistentVolumeClaim, why string) string {
	field := c.Path + ".spec.storageClassName"
	if c.Path == "" {
		field = "runnerDataPvc.storageClassName of the manager's configuration"
	}
	start := fmt.Sprintf("the claim %s has no volume: ", c.Name)
	switch class := have.Spec.StorageClassName; {
	case why != "":
		return start + why + " (" + field + ")"
	case class == nil:
		return start + fmt.Sprintf("it names no storage class, and the cluster has no default one (set %s)", field)
	case *class == "":
		return start + fmt.Sprintf("its storage class is empty (%s), so an administrator has to create a PersistentVolume for it", field)
	default:
		return start + fmt.Sprintf("check that the storage class %s exists (%s), and that its provisioner is running", *class, field)
	}
}

// Change returns the merge patch (RFC 7386) that brings an existing claim as near
// to what the VM asks for as a claim allows: labels, annotations, a larger size, the
// class of what can change in a volume. One without a storage class gets that first,
// and is still Stale then. c.Problem and c.Kept say what remains.
func (c *Claim) Change(have *corev1.PersistentVolumeClaim) ([]byte, error) {
	wanted := c.wanted
	if class, asked := c.fixed[classField]; asked && class != "" && classless(have) {
		return json.Marshal(map[string]any{
			"metadata": map[string]any{"resourceVersion": have.ResourceVersion},
			"spec":     map[string]any{classField: class},
		})
	}
	annotations, spec := map[string]any{}, map[string]any{}
	for key, value := range wanted.Annotations {
		annotations[key] = value
	}
	size := have.Spec.Resources.Requests[corev1.ResourceStorage]
	if text := requested(wanted); text != "" {
		if c.Problem = c.shrinks(size); c.Problem == nil {
			spec["resources"] = map[string]any{"requests": map[string]any{string(corev1.ResourceStorage): text}}
		} else {
			annotations[AnnotationStorage] = size.String()
		}
	}
	if class := wanted.Spec.VolumeAttributesClassName; class != nil {
		spec["volumeAttributesClassName"] = *class
	}
	kept := c.fixed.missed(fixedOf(have))
	c.Kept = c.keeps(kept)
	annotations[AnnotationKept] = nil // no such annotation
	if len(kept) > 0 {
		note, err := json.Marshal(kept)
		if err != nil {
			return nil, fmt.Errorf("write what the claim %s keeps: %w", c.Name, err)
		}
		annotations[AnnotationKept] = string(note)
	}
	patch := map[string]any{"metadata": map[string]any{
		"resourceVersion": have.ResourceVersion, "labels": wanted.Labels, "annotations": annotations,
	}}
	if len(spec) > 0 {
		patch["spec"] = spec
	}
	text, err := json.Marshal(patch)
	if err != nil {
		return nil, fmt.Errorf("write the patch of the claim %s: %w", c.Name, err)
	}
	return text, nil
}
