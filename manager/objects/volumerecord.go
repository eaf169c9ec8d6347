package objects

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	v1 "vmop/api/v1"
)

// The status of a VM, which only the manager and the VM's runner can write, has the uid of
// each claim that was created for the VM: labels, annotations and owner references of a
// claim are what its author wants them to be, its uid is not.
//
// See docs/decisions/0057-claims.md.

// creating begins the uid in the status of a claim that is about to be created.
const creating = "creating:"

// NotMade is why the files are not trusted of a claim that wasn't created for the VM.
const NotMade = "its origin: the claim was not created for this VM"

// announcement is what stands in the status in place of a uid before the claim with a token
// is created. A manager that is killed before it has noted the uid leaves a claim with the
// token, which can't be guessed from the hash.
func announcement(token string) string {
	sum := sha256.Sum256([]byte(token))
	return creating + hex.EncodeToString(sum[:])
}

// volumeOf returns what the status says of a claim.
func volumeOf(vm *v1.VirtualMachine, claim string) v1.Volume {
	i := slices.IndexFunc(vm.Status.Volumes, func(v v1.Volume) bool { return v.Claim == claim })
	if i < 0 {
		return v1.Volume{}
	}
	return vm.Status.Volumes[i]
}

// foreign says why the files in the volume of a claim that exists are not trusted, as far as
// the VM's status tells; "" if they are. made is the uid of the claim that this process has
// created by that name. A manager that kept no such records has created the claims of the VMs
// that it has seen.
func foreign(vm *v1.VirtualMachine, have metav1.ObjectMeta, made types.UID, record origin) string {
	token := have.Annotations[AnnotationToken]
	recorded := record.uid == have.UID && have.UID != ""
	switch last := volumeOf(vm, have.Name); {
	case recorded && record.untrusted != "":
		return record.untrusted
	case vm.Status.ObservedGeneration > 0 && len(vm.Status.Volumes) == 0:
		return ""
	case last.UID == string(have.UID) && last.Untrusted != NotMade: // which a second leader may have noted
		return last.Untrusted
	case recorded, made == have.UID:
		return ""
	case made == "" && token != "" && last.UID == announcement(token):
		return ""
	}
	return NotMade
}

// Volumes returns what the VM's status is to say of its claims. It is never empty, so that
// the claims of a VM that a manager has seen are known. Former ones stay in it: an entry that
// [Announce] has written belongs to two owners, of which one can't remove it, and a disk may
// come back.
func Volumes(vm *v1.VirtualMachine, claims []Claim) []v1.Volume {
	var all []v1.Volume
	for _, c := range claims {
		last, volume := volumeOf(vm, c.Name), v1.Volume{Claim: c.Name, UID: string(c.UID), Untrusted: c.Untrusted}
		switch {
		case c.mount == "":
			continue
		case c.Problem != nil && c.Problem.Fatal: // it isn't the VM's, as it is now
			volume.UID, volume.Untrusted = last.UID, last.Untrusted
		case c.UID == "" && strings.HasPrefix(last.UID, creating):
			volume.UID = last.UID // it is still to be created
		}
		all = append(all, volume)
	}
	for _, former := range vm.Status.Volumes {
		if !slices.ContainsFunc(all, func(v v1.Volume) bool { return v.Claim == former.Claim }) {
			all = append(all, former)
		}
	}
	if len(all) == 0 && vm.Status.ObservedGeneration == 0 {
		all = []v1.Volume{{Claim: claimsOf(vm)[0].name}}
	}
	return all
}

// Announce returns what the VM's status must say before claims are created for it, and the
// tokens of those that it doesn't announce yet, by name; nil if there are none. tokens are
// those of the claims that it does. Only a VM whose pod gets more than Pod Security's level
// "restricted" can't use a claim that the status doesn't know.
func Announce(vm *v1.VirtualMachine, s Settings, claims []Claim, tokens map[string]string, token func() string) (
	all []v1.Volume, more map[string]string,
) {
	if !rightsOf(vm, s).beyondRestricted() {
		return nil, nil
	}
	all = Volumes(vm, claims)
	for i := range all {
		v := &all[i]
		known := tokens[v.Claim] != "" && v.UID == announcement(tokens[v.Claim])
		if known || !slices.ContainsFunc(claims, func(c Claim) bool { return c.Name == v.Claim && c.Apply != nil }) {
			continue
		}
		if more == nil {
			more = map[string]string{}
		}
		more[v.Claim] = token()
		v.UID = announcement(more[v.Claim])
	}
	return all, more
}
