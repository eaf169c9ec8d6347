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

// A VM's status contains the UID of each claim that was created for the VM. Only the manager and the VM's runner can
// write the status. Users can choose a claim's labels, annotations and owner references, but not its UID.
//
// See docs/decisions/0057-claims.md.

// creating is the prefix of the UID in the status for a claim that is about to be created.
const creating = "creating:"

// NotMade is the reason why files are not trusted if their claim wasn't created for the VM.
const NotMade = "its origin: the claim was not created for this VM"

// announcedUID returns what the status contains instead of a UID before the claim with a token is created. If the
// manager is killed before it has recorded the UID, the claim can be recognized by its token, which can't be guessed
// from the hash.
func announcedUID(token string) string {
	sum := sha256.Sum256([]byte(token))
	return creating + hex.EncodeToString(sum[:])
}

// volumeOf returns the entry for a claim in the status.
func volumeOf(vm *v1.VirtualMachine, claim string) v1.Volume {
	i := slices.IndexFunc(vm.Status.Volumes, func(v v1.Volume) bool { return v.Claim == claim })
	if i < 0 {
		return v1.Volume{}
	}
	return vm.Status.Volumes[i]
}

// whyForeign returns why the files in the volume of an existing claim are not trusted, as far as the VM's status shows
// it, or "" if they are trusted. made is the UID of the claim with this name that this process has created. If a
// manager without such records has seen a VM, the VM's claims are assumed to be created by this manager.
func whyForeign(vm *v1.VirtualMachine, have metav1.ObjectMeta, made types.UID, record origin) string {
	token := have.Annotations[AnnotationToken]
	recorded := record.uid == have.UID && have.UID != ""
	switch last := volumeOf(vm, have.Name); {
	case recorded && record.untrusted != "":
		return record.untrusted
	case vm.Status.ObservedGeneration > 0 && len(vm.Status.Volumes) == 0:
		return ""
	case last.UID == string(have.UID) && last.Untrusted != NotMade: // a second leader may have recorded NotMade
		return last.Untrusted
	case recorded, made == have.UID:
		return ""
	case made == "" && token != "" && last.UID == announcedUID(token):
		return ""
	}
	return NotMade
}

// Volumes returns the claims for the VM's status. The list is never empty, which shows that a manager has already
// seen the VM and its claims. It keeps the claims of former disks: an entry that [Announce] has written belongs to
// two field owners, so a single owner can't remove it, and a disk may be added again.
func Volumes(vm *v1.VirtualMachine, claims []Claim) []v1.Volume {
	var all []v1.Volume
	for _, c := range claims {
		last, volume := volumeOf(vm, c.Name), v1.Volume{Claim: c.Name, UID: string(c.UID), Untrusted: c.Untrusted}
		switch {
		case c.mount == "":
			continue
		case c.Problem != nil && c.Problem.Fatal: // the claim doesn't currently belong to the VM
			volume.UID, volume.Untrusted = last.UID, last.Untrusted
		case c.UID == "" && strings.HasPrefix(last.UID, creating):
			volume.UID = last.UID // the claim is yet to be created
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

// Announce returns what the VM's status must contain before claims are created for it, and the tokens of claims that
// it doesn't announce yet, by claim name. The tokens are nil if all claims are announced. The argument tokens
// contains the tokens of announced claims. Announcements are only necessary for a VM with a pod that needs more than
// Pod Security's level "restricted": such a VM can't use a claim that its status doesn't contain.
func Announce(vm *v1.VirtualMachine, s Settings, claims []Claim, tokens map[string]string, token func() string) (
	all []v1.Volume, more map[string]string,
) {
	if !rightsOf(vm, s).beyondRestricted() {
		return nil, nil
	}
	all = Volumes(vm, claims)
	for i := range all {
		v := &all[i]
		known := tokens[v.Claim] != "" && v.UID == announcedUID(tokens[v.Claim])
		if known || !slices.ContainsFunc(claims, func(c Claim) bool { return c.Name == v.Claim && c.Apply != nil }) {
			continue
		}
		if more == nil {
			more = map[string]string{}
		}
		more[v.Claim] = token()
		v.UID = announcedUID(more[v.Claim])
	}
	return all, more
}
