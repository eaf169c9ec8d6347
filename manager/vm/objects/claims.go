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

// dataVolume is the name of the volume of DataDir, and dataSize is its size.
const (
	dataVolume = "runner-data"
	dataSize   = "1Mi"
)

// Claim is a volume of a VM. It has no owner, so it is kept when the VM is deleted. The manager never deletes it.
type Claim struct {
	// Name of the claim.
	Name string
	// Volume is the volume's name in the pod.
	Volume string
	// Path is the VM's field that requests the claim; "" for the volume of DataDir.
	Path string
	// Apply creates the claim; nil if the claim exists.
	Apply *applycorev1.PersistentVolumeClaimApplyConfiguration
	// Stale means that the claim exists but may differ from what the VM requests. The caller must read the claim,
	// and write the result of Change.
	Stale bool
	// Problem is the reason why the claim is unusable, or can't follow the VM's request; nil without a problem.
	Problem *Problem
	// Kept lists immutable fields of the existing claim that differ from the VM's request.
	Kept []Problem
	// UID of the claim, if it exists.
	UID types.UID
	// Untrusted is the reason why the files in the volume are not trusted; "" if they are trusted, or the volume has
	// no files.
	Untrusted string
	// Waits is the reason why the claim can't be created from its snapshot yet; nil if it can.
	Waits *SourceFault

	wanted *applycorev1.PersistentVolumeClaimApplyConfiguration
	mount  string // mount path of its file system in the pod; "" for a block device
	fixed  fixed  // requested values of immutable fields
	marked bool   // Untrusted must be written into the claim
	record origin // information that outlives the VM
	filled string // why the initial content of the volume is not trusted
	taint  string // the reason to write into the record; "" if no write is needed

	readOnly bool // the pod can't write to it
	target   bool // it belongs to the target pod of a migration
}

// Existing describes a VM's existing claims, by claim name.
type Existing struct {
	// Claims are the metadata of existing claims.
	Claims map[string]metav1.ObjectMeta
	// Records are the metadata of their records.
	Records map[string]*Metadata
	// Made are the UIDs of the claims that this process has created for the VM, even if the VM's status doesn't
	// contain them yet.
	Made map[string]types.UID
	// Source is the source snapshot of missing claims (spec.dataSource); nil without a snapshot.
	Source *v1.VirtualMachineSnapshot
}

// ClaimNames returns the possible names of a VM's claims. Claims needs the metadata of the existing claims with
// these names.
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

// VolumeNames returns the names of a VM's own volumes as snapshots use them: the runner's data, then the disks with
// a claim template.
func VolumeNames(vm *v1.VirtualMachine) []string {
	var names []string
	for _, c := range claimsOf(vm) {
		if !c.target {
			names = append(names, c.volume)
		}
	}
	return names
}

// claimOf is a volume with its two possible claim names: name is the name that a StatefulSet would give it, and
// newer is the name in later versions of VM-Operator. With a suffix there is only the first name.
type claimOf struct {
	volume, name, newer, path string
	mount                     string // mount path of its file system in the pod; "" for a block device
	disk                      *v1.VolumeClaimTemplate
	target                    bool // it belongs to the target pod of a migration
}

// dataClaim returns the volume for the runner's data in the pod with this ordinal.
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
			c.mount = path.Join(diskDir, name)
		}
		if d.VolumeClaimTemplate.Metadata.Name == "" { // VM-Operator didn't count CD drives
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
		all[i] = all[i].withSuffix(vm)
	}
	return all
}

// withSuffix adds the claim name suffix of a VM that may have been restored.
func (of claimOf) withSuffix(vm *v1.VirtualMachine) claimOf {
	if suffix := vm.Spec.ClaimNameSuffix; suffix != "" {
		of.name, of.newer = of.name+"."+suffix, "" // unique, since names of VMs contain no dot
	}
	return of
}

// Claims returns the claims of a VM: the runner's data, then the disks in their order.
func Claims(vm *v1.VirtualMachine, s Settings, existing Existing) ([]Claim, error) {
	var all []Claim
	for _, of := range claimsOf(vm) {
		wanted, err := newClaim(vm, s, of)
		if err != nil {
			return nil, err
		}
		c := Claim{
			Volume: of.volume, Path: of.path, wanted: wanted, mount: of.mount, fixed: of.fixedFields(),
			target: of.target,
		}
		var exists bool
		c.Name, exists = of.findExisting(vm, existing.Claims)
		have := existing.Claims[c.Name]
		if exists {
			c.UID = have.UID
			c.compareMetadata(vm, have)
		} else {
			c.Apply, c.filled = wanted, of.filledWith()
			if !of.target {
				c.fillFromSnapshot(vm, existing.Source)
			}
		}
		if of.mount != "" { // other volumes contain no files
			if exists {
				c.record = originOf(existing.Records[c.Name])
				c.Untrusted = whyForeign(vm, have, existing.Made[c.Name], c.record)
			}
			c.markTrust(vm, s, have)
		}
		all = append(all, c)
	}
	return all, nil
}

// findExisting selects the existing claim to use, or the name of the claim to create. The VM's own claims take
// precedence. A claim without an owner is also selected: a new VM for an existing disk must not start with an empty
// disk.
func (of claimOf) findExisting(vm *v1.VirtualMachine, existing map[string]metav1.ObjectMeta) (name string,
	exists bool,
) {
	first, is := existing[of.name]
	newer, there := existing[of.newer]
	switch {
	case is && vmOfClaim(first) == vm.Name, !there:
		return of.name, is
	case vmOfClaim(newer) == vm.Name:
		return of.newer, true
	case is, vmOfClaim(newer) != "":
		return of.name, is
	}
	return of.newer, true
}

// vmOfClaim returns the VM that a claim belongs to according to its labels, which VM-Operator also set on all of its
// claims. It returns "" if the claim belongs to no VM.
func vmOfClaim(claim metav1.ObjectMeta) string {
	if claim.Labels[LabelName] != AppName {
		return ""
	}
	return claim.Labels[LabelInstance]
}

// filledWith returns the field that fills a new volume with data, or "" if the volume starts empty.
func (of claimOf) filledWith() string {
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

// claimConfiguration is a claim in the form for server-side apply.
type claimConfiguration = applycorev1.PersistentVolumeClaimApplyConfiguration

// newClaim returns a claim as the VM requests it.
func newClaim(vm *v1.VirtualMachine, s Settings, of claimOf) (*claimConfiguration, error) {
	var spec *applycorev1.PersistentVolumeClaimSpecApplyConfiguration
	labels, annotations := Labels(vm), map[string]string{}
	if of.disk == nil {
		spec = applycorev1.PersistentVolumeClaimSpec().WithAccessModes(corev1.ReadWriteOnce).
			WithResources(applycorev1.VolumeResourceRequirements().
				WithRequests(corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(dataSize)}))
		spec.StorageClassName = s.DataStorageClass
	} else {
		var err error
		spec, err = asApplied[applycorev1.PersistentVolumeClaimSpecApplyConfiguration](of.path+".spec", of.disk.Spec)
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
			if !strings.HasPrefix(key, v1.GroupName+"/") { // reserved for the manager
				annotations[key] = value
			}
		}
	}
	c := applycorev1.PersistentVolumeClaim(of.name, vm.Namespace).
		WithLabels(labels).WithAnnotations(annotations).WithSpec(spec)
	if size := requestedSize(c); size != "" {
		c.WithAnnotations(map[string]string{AnnotationStorage: size})
	}
	return stampHash(c, s)
}

// requestedSize returns the size that a claim requests.
func requestedSize(c *applycorev1.PersistentVolumeClaimApplyConfiguration) string {
	if c.Spec.Resources == nil || c.Spec.Resources.Requests == nil {
		return ""
	}
	size, given := (*c.Spec.Resources.Requests)[corev1.ResourceStorage]
	if !given {
		return ""
	}
	return size.String()
}

// compareMetadata compares an existing claim's metadata with the request.
func (c *Claim) compareMetadata(vm *v1.VirtualMachine, have metav1.ObjectMeta) {
	if owner := vmOfClaim(have); owner != vm.Name {
		c.Problem = c.notOurs(vm, owner)
		return
	}
	c.Stale = have.Annotations[AnnotationApplied] != c.wanted.Annotations[AnnotationApplied]
	if size, err := resource.ParseQuantity(have.Annotations[AnnotationStorage]); err == nil {
		c.Problem = c.shrinkProblem(size)
	}
	c.Kept = c.keptProblems(notedFields(have))
}

// notOurs returns the problem of a claim that doesn't belong to the VM. The VM must not access its data.
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
		"give the %s another name or, to let the VM use its data, add the labels "+
		"(kubectl label --overwrite pvc %[1]s %[3]s=%[4]s %[5]s=%[6]s)",
		c.Name, what, LabelName, AppName, LabelInstance, vm.Name)}
}

// markTrust determines whether the files in a volume are untrusted: because of its initial content, or because a pod
// with an untrusted image or untrusted VM types leaves files there.
func (c *Claim) markTrust(vm *v1.VirtualMachine, s Settings, have metav1.ObjectMeta) {
	known := cmp.Or(c.Untrusted, have.Annotations[AnnotationUntrusted])
	c.Untrusted = known
	if c.Problem != nil && c.Problem.Fatal {
		return
	}
	why := untrustedPart(vm, s)
	if rightsOf(vm, s).beyondRestricted() {
		why = "" // such a pod doesn't run
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

// Mark returns the merge patch (RFC 7386) that writes the reason in Untrusted into an existing claim, or nil if the
// claim contains it. The patch contains no other fields that the API server could reject.
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

// shrinkProblem returns the problem of a claim that is larger than requested.
func (c *Claim) shrinkProblem(have resource.Quantity) *Problem {
	size, err := resource.ParseQuantity(requestedSize(c.wanted))
	if err != nil || c.Path == "" || size.Cmp(have) >= 0 {
		return nil
	}
	return &Problem{Path: c.Path + ".spec.resources.requests.storage", Message: fmt.Sprintf(
		"the volume stays at %s: volumes can grow, but not shrink to %s", have.String(), size.String())}
}

// Wanted returns the hash of the VM's request.
func (c *Claim) Wanted() string { return c.wanted.Annotations[AnnotationApplied] }

// Refused explains a Change of a claim that the API server rejects, in terms of the VM: the field, the value that
// stays, and a valid value. why is the server's message.
func (c *Claim) Refused(have *corev1.PersistentVolumeClaim, why string) string {
	size, wanted := have.Spec.Resources.Requests[corev1.ResourceStorage], requestedSize(c.wanted)
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

// Unbound explains what a claim without a volume waits for, as far as the claim shows it, and which field to change.
// why is the volume provisioner's message, or "".
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

// Change returns the merge patch (RFC 7386) that brings an existing claim as close to the VM's request as possible:
// labels, annotations, a larger size, the volume attributes class. If the claim has no storage class, the first
// patch only sets the class, and the claim stays Stale. c.Problem and c.Kept describe the remaining differences.
func (c *Claim) Change(have *corev1.PersistentVolumeClaim) ([]byte, error) {
	wanted := c.wanted
	if class, asked := c.fixed[classField]; asked && class != "" && hasNoClass(have) {
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
	if text := requestedSize(wanted); text != "" {
		if c.Problem = c.shrinkProblem(size); c.Problem == nil {
			spec["resources"] = map[string]any{"requests": map[string]any{string(corev1.ResourceStorage): text}}
		} else {
			annotations[AnnotationStorage] = size.String()
		}
	}
	if class := wanted.Spec.VolumeAttributesClassName; class != nil {
		spec["volumeAttributesClassName"] = *class
	}
	kept := c.fixed.missedFields(fixedOf(have))
	c.Kept = c.keptProblems(kept)
	annotations[AnnotationKept] = nil // removes the annotation
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
