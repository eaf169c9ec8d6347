package takeover

import "slices"

// Effect is the consequence of a finding.
type Effect string

// Effects.
const (
	Kept    Effect = "kept"    // is taken over unchanged
	Changes Effect = "changes" // works, but differently
	Blocks  Effect = "blocks"  // doesn't work until an administrator acts
)

// Finding is something that an administrator must know.
type Finding struct {
	Effect Effect `json:"effect"`
	// Path of the field in the resource or in the configuration; "" means the whole object.
	Path    string `json:"path,omitempty"`
	Message string `json:"message"`
	// Hint describes what to do; "" if no action is needed.
	Hint string `json:"hint,omitempty"`
}

// Subject is an object with findings.
type Subject struct {
	Kind string `json:"kind"`
	Name string `json:"name"`
	// RunsIn is the pod of VM-Operator that uses the VM's disks; "" without such a pod.
	RunsIn string `json:"runsIn,omitempty"`
	// StatefulSet is set if the VM has a StatefulSet of VM-Operator before 3.4, which must be deleted.
	StatefulSet bool      `json:"statefulSet,omitempty"`
	Findings    []Finding `json:"findings"`
}

// Blocked reports whether a finding requires an action before the object works.
func (s *Subject) Blocked() bool { return s.Worst() == Blocks }

// Worst returns the most severe effect, or Kept without findings.
func (s *Subject) Worst() Effect {
	order := []Effect{Kept, Changes, Blocks}
	worst := 0
	for _, f := range s.Findings {
		worst = max(worst, slices.Index(order, f.Effect))
	}
	return order[worst]
}

func (s *Subject) addFinding(effect Effect, path, message, hint string) {
	s.Findings = append(s.Findings, Finding{effect, path, message, hint})
}

// Report contains the assessment of a namespace.
type Report struct {
	Subjects []Subject `json:"objects"`
	// Managers are the Deployments of VM-Operator's manager that have or request pods. As long as such a Deployment
	// exists, VMs can't be taken over.
	Managers []string `json:"runningManagers,omitempty"`
	// TrustedClaims are the claims that the configuration must trust, so that VMs start with the data from
	// VM-Operator's runners.
	TrustedClaims []string `json:"trustedClaims,omitempty"`
}

// Blocked reports whether any finding requires an action.
func (r *Report) Blocked() bool {
	return slices.ContainsFunc(r.Subjects, func(s Subject) bool { return s.Blocked() })
}
