package takeover

import "slices"

// An Effect is what a finding means.
type Effect string

// Effects.
const (
	Kept    Effect = "kept"    // it is taken over as it is
	Changes Effect = "changes" // it works, and differs from what it was
	Blocks  Effect = "blocks"  // it doesn't work until something has been done
)

// A Finding is something that an administrator must know.
type Finding struct {
	Effect Effect `json:"effect"`
	// Path of what it is about, in the resource or in the configuration; "" is all of it.
	Path    string `json:"path,omitempty"`
	Message string `json:"message"`
	// Hint is what to do; "" is nothing.
	Hint string `json:"hint,omitempty"`
}

// A Subject is what findings are about.
type Subject struct {
	Kind string `json:"kind"`
	Name string `json:"name"`
	// RunsIn is the pod of VM-Operator that has the VM's disks; "" if there is none.
	RunsIn string `json:"runsIn,omitempty"`
	// StatefulSet: the VM has one of a VM-Operator before 3.4, which has to be deleted.
	StatefulSet bool      `json:"statefulSet,omitempty"`
	Findings    []Finding `json:"findings"`
}

// Blocked reports whether something doesn't work until it has been seen to.
func (s *Subject) Blocked() bool { return s.Worst() == Blocks }

// Worst returns the effect that needs most attention; Kept if there is no finding.
func (s *Subject) Worst() Effect {
	order := []Effect{Kept, Changes, Blocks}
	worst := 0
	for _, f := range s.Findings {
		worst = max(worst, slices.Index(order, f.Effect))
	}
	return order[worst]
}

func (s *Subject) add(effect Effect, path, message, hint string) {
	s.Findings = append(s.Findings, Finding{effect, path, message, hint})
}

// A Report is what is known of a namespace.
type Report struct {
	Subjects []Subject `json:"objects"`
	// Managers are the Deployments of VM-Operator's manager that have or want pods. While there are
	// any, no VM can be handed over.
	Managers []string `json:"runningManagers,omitempty"`
	// TrustedClaims are those that the configuration has to trust, so that VMs start with the data
	// that their runners have left there.
	TrustedClaims []string `json:"trustedClaims,omitempty"`
}

// Blocked reports whether something doesn't work until it has been seen to.
func (r *Report) Blocked() bool {
	return slices.ContainsFunc(r.Subjects, func(s Subject) bool { return s.Blocked() })
}
