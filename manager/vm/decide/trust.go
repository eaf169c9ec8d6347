package decide

import (
	"strings"

	"vmop/manager/vm/objects"
)

// Trust reports whether a VM may run with the rights of its pod. An untrusted VM isn't started. If it is already
// running, it doesn't follow its definition: its configuration and the template of its next pod stay unchanged.
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
