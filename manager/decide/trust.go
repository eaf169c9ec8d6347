package decide

import (
	"strings"

	"vmop/manager/objects"
)

// Trust reports whether a VM may run with the rights that its pod gets. If it may not, it
// isn't started, and one that is running doesn't follow its definition: its configuration
// stays, and so does what its next pod would be made from.
func Trust(s *Snapshot, claims []objects.Claim) (trusted bool, did Report) {
	var messages []string
	for _, p := range objects.Distrust(s.VM, s.Settings, claims) {
		messages = append(messages, p.String())
	}
	if len(messages) == 0 {
		return true, did
	}
	did.Stop(Stalled{ReasonNotTrusted, Readable(strings.Join(messages, "; "))}, nil)
	return false, did
}
