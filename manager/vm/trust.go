package vm

import (
	"context"
	"strings"

	"vmop/manager/objects"
)

// checkTrust keeps from its start what must not run with the rights that its pod
// gets, and a VM that runs from following such a definition: its configuration stays
// what it was, and so does what its next pod would be made from.
func (c *reconciler) checkTrust(_ context.Context, v *visit) (outcome, error) {
	var messages []string
	for _, p := range objects.Distrust(v.vm, v.settings, v.claims) {
		messages = append(messages, p.String())
	}
	if len(messages) == 0 {
		return nil, nil
	}
	v.distrusted, v.frozen = true, true
	return stalled{reasonNotTrusted, readable(strings.Join(messages, "; "))}, nil
}
