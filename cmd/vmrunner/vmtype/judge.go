package vmtype

import (
	"fmt"
	"path/filepath"

	"github.com/spf13/cobra"

	"vmop/vmtypes"
	"vmop/vmtypes/plan"
	"vmop/vmtypes/policy"
)

// A judge holds plans against the policy that was asked for with --vmtypes-policy,
// as if the types were in the folder --vmtypes: authors work elsewhere. The
// computer's own policy is for VMs that run.
type judge struct {
	file, folder *string
	given        func() bool
	policy       *policy.Policy
}

func newJudge(f Flags, cmd *cobra.Command) *judge {
	return &judge{file: f.Policy, folder: f.Folder, given: func() bool { return cmd.Flags().Changed("vmtypes-policy") }}
}

// check returns what the policy doesn't allow of the plan of a sample.
func (j *judge) check(made *plan.Plan, vmType string, host vmtypes.Host, options map[string]any) (err error) {
	if !j.given() {
		return nil
	}
	if j.policy == nil {
		if j.policy, err = policy.Load(*j.file); err != nil {
			return err
		}
	}
	folder := policy.Stock
	if !vmtypes.IsStock(vmType) {
		if folder, err = filepath.Abs(*j.folder); err != nil {
			return fmt.Errorf("folder of VM types: %w", err)
		}
	}
	return j.policy.Check(made, policy.Subject{Folder: folder, DataDir: host.DataDir, RuntimeDir: host.RuntimeDir, Sample: true, Options: options})
}
