package decide

import (
	"fmt"

	"vmop/manager/vm/objects"
	"vmop/vmstatus"
)

// Data checks that the Secrets exist from which the guest configures itself. Only the runner can read their
// contents.
func Data(s *Snapshot) (did Report) {
	// The API server has no rule for this, since userData has no type there.
	if c := s.VM.Spec.CloudInit; c != nil && c.UserData != nil && c.UserDataFrom != nil {
		const twice = "spec.cloudInit.userDataFrom: userData is given as well: leave one of the two out"
		did.Stop(Stalled{Reason: ReasonRefused, Message: twice}, nil)
	}
	for i, of := range objects.DataSecrets(s.VM) {
		if s.Data[i] == nil {
			message := fmt.Sprintf("there is no %s; the VM starts when it is created (the type of a Secret can't be "+
				"changed: one of another type has to be deleted first)", of)
			did.Stop(Waiting{Reason: ReasonSecretMissing, Message: message}, nil)
		}
	}
	return did
}

// DataChanged reports whether the VM could not start because data was missing, and a Secret with such data has been
// written since.
func DataChanged(s *Snapshot) bool {
	f := s.VM.Status.Failures
	if f == nil || f.Last == nil || f.Last.Reason != string(vmstatus.ReasonDataMissing) {
		return false
	}
	for _, secret := range s.Data {
		if secret != nil && !objects.WrittenAt(secret).Before(&f.LastTime) {
			return true
		}
	}
	return false
}

// dataMissing translates the runner's message about missing data into the field names of the resource.
func (s *Snapshot) dataMissing(message string) string {
	for _, of := range objects.DataSecrets(s.VM) {
		message = fmt.Sprintf("needs %s; %s", of, message)
	}
	return message
}
