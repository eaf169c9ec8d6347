package vmtype

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"vmop/internal/cli/plans"
	"vmop/vmtypes"
	"vmop/vmtypes/policy"
)

func newRender(f Flags) *cobra.Command {
	var r rendering
	cmd := &cobra.Command{
		Use:   "render -f vm.yaml",
		Short: "Print the plan that a VM type computes for a VM",
		Long: "Evaluate a VM type, which may come from someone else, and print the launch plan.\n" +
			"Nothing is started or changed. With --why each argument shows the line that created it, and the\n" +
			"calls that led there.\n\n" + trialHelp,
		Example: "  vmrunner vmtype render -f vm.yaml --why\n" +
			"  vmrunner vmtype render -f vm.yaml --set vm.maximumCpus=8 -o argv\n" +
			"  vmrunner vmtype render -f testdata/two-disks.txtar --host fedora\n" +
			"  vmrunner vmtype render -f vm.yaml --watch",
		Args: noMore, ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			r.out, r.errs = cmd.OutOrStdout(), cmd.ErrOrStderr()
			if r.watch && r.trial.file != "" {
				return r.renderOnChange(cmd.Context())
			}
			return r.renderPlan(cmd.Context())
		},
	}
	r.trial = newTrial(f, cmd)
	r.policy = newPolicyCheck(f, cmd)
	plans.AddFlags(cmd, &r.form, &r.why)
	cmd.Flags().BoolVar(&r.watch, "watch", false,
		"render again when files change, and show how the plan differs, until Ctrl-C")
	return cmd
}

// rendering is the state of one call of the verb.
type rendering struct {
	trial     *trial
	form      string
	why       bool
	watch     bool
	policy    *policyCheck
	out, errs io.Writer
}

func (r *rendering) renderPlan(ctx context.Context) error {
	c, err := r.trial.readFiles(ctx)
	if err != nil {
		return err
	}
	p, err := c.launchPlan(ctx)
	for _, at := range c.refusedAt {
		if r.why {
			fmt.Fprintln(r.errs, "refused at", at)
		}
	}
	c.printWarnings(r.errs, p)
	if err == nil {
		err = r.policy.checkPlan(p, c.vmType.Name, c.host, c.spec.Options)
	}
	if errors.As(err, new(*policy.Error)) {
		return errors.Join(plans.Print(r.out, p, r.form, r.why), err)
	}
	if p == nil || err != nil && !errors.As(err, new(*vmtypes.FaultsError)) {
		return err
	}
	return errors.Join(plans.Print(r.out, p, r.form, r.why), err)
}
