package vmtype

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"github.com/spf13/cobra"

	"vmop/vmtypes"
	"vmop/vmtypes/plan"
	"vmop/vmtypes/policy"
)

// A policyCheck checks plans against the policy of --vmtypes-policy. It treats the types as if they were in the folder
// --vmtypes, because authors work in other folders. It ignores the computer's own policy, which applies to running VMs.
type policyCheck struct {
	folder *string
	file   *string
	given  func() bool
	load   func() (*policy.Policy, error) // once
}

func newPolicyCheck(f Flags, cmd *cobra.Command) *policyCheck {
	return &policyCheck{
		folder: f.Folder, file: f.Policy,
		given: func() bool { return cmd.Flags().Changed("vmtypes-policy") },
		load:  sync.OnceValues(func() (*policy.Policy, error) { return policy.Load(*f.Policy) }),
	}
}

// text returns the folder of the judged types and the text of the policy; "" without a policy.
func (j *policyCheck) text() (string, error) {
	if !j.given() {
		return "", nil
	}
	text, err := os.ReadFile(*j.file)
	if err != nil {
		return "", fmt.Errorf("read the policy: %w", err)
	}
	folder, err := filepath.Abs(*j.folder)
	return folder + "\n" + string(text), err
}

// checkPlan returns an error if the policy denies a part of a sample's plan.
func (j *policyCheck) checkPlan(made *plan.Plan, vmType string, host vmtypes.Host, options map[string]any) error {
	if !j.given() {
		return nil
	}
	limits, err := j.load()
	if err != nil {
		return err
	}
	subject, err := j.subjectOf(vmType, host, options)
	if err != nil {
		return err
	}
	return limits.Check(made, subject)
}

// subjectOf describes a sample and its type for a policy.
func (j *policyCheck) subjectOf(vmType string, host vmtypes.Host, options map[string]any) (policy.Subject, error) {
	folder := policy.Stock
	if !vmtypes.IsStock(vmType) {
		var err error
		if folder, err = filepath.Abs(*j.folder); err != nil {
			return policy.Subject{}, fmt.Errorf("folder of VM types: %w", err)
		}
	}
	return policy.Subject{
		Folder: folder, DataDir: host.DataDir, RuntimeDir: host.RuntimeDir, Sample: true, Options: options,
	}, nil
}
