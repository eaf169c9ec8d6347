package vmtype

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"vmop/authoring/sample"
	"vmop/internal/cli"
	"vmop/vmtypes/policy"
)

// newPolicy returns the verb for policies.
func newPolicy(f Flags) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "policy",
		Short: "Write policies for VM types",
		Long: "Write policies for VM types. A policy is an allow-list for launch plans\n" +
			"(docs/vm-types/restrict.md).",
		Args: cli.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newSuggest(f))
	return cmd
}

func newSuggest(f Flags) *cobra.Command {
	s := suggesting{}
	cmd := &cobra.Command{
		Use:   "suggest [DIR]",
		Short: "Print the smallest rule that allows the plans of samples",
		Long: "Print a rule for a policy that allows the plans of all samples of a folder, by default\n" +
			"the current one, or the plan of one VM (-f). Without any of its words, it denies a plan.\n" +
			"A comment before each word names the option that needs it and its line in the type.\n\n" +
			"With --vmtypes-policy, the policy's rule for the folder --vmtypes is completed. Otherwise the\n" +
			"rule is new, and allows what the stock types need. Review the rule before you add it to the\n" +
			"policy, because it allows everything that the types do.\n\n" + trialHelp,
		Example: "  vmrunner vmtype policy suggest types --vmtypes /opt/vmrunner/vmtypes\n" +
			"  vmrunner vmtype policy suggest -f vm.yaml --vmtypes-policy policy.yaml",
		Args: atMostOne("suggest", "a folder"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if s.trial.file != "" && len(args) > 0 {
				return cli.UsageError{Err: errors.New("suggest takes a folder or -f, not both")}
			}
			return s.printRules(cmd.Context(), cmd.OutOrStdout(), orHere(args)[0])
		},
		ValidArgsFunction: completeFolders,
	}
	s.policy, s.trial = newPolicyCheck(f, cmd), newTrial(f, cmd)
	s.trial.given = func() bool { return false } // --vmtypes is the folder for the policy
	return cmd
}

// suggesting is the state of one call of the verb.
type suggesting struct {
	policy *policyCheck
	trial  *trial
}

// printRules prints the rules for the plans, one for each folder of types.
func (s *suggesting) printRules(ctx context.Context, w io.Writer, dir string) error {
	uses, err := s.usesOf(ctx, dir)
	if err != nil {
		return err
	}
	var known *policy.Policy
	if s.policy.given() {
		if known, err = s.policy.load(); err != nil {
			return err
		}
	}
	for _, folder := range slices.Sorted(maps.Keys(uses)) {
		text, replaces, added, err := known.Suggest(uses[folder])
		if err != nil {
			return err
		}
		note := "Add this rule to the list rules of the policy."
		switch {
		case replaces != "" && added == 0:
			note, text = fmt.Sprintf("The rule at %s allows these plans.", replaces), ""
		case replaces != "":
			note = fmt.Sprintf("Replace the rule at %s with this rule.", replaces)
		}
		if err := cli.WriteLine(w, "# "+note+"\n"+text); err != nil {
			return err
		}
	}
	return nil
}

// usesOf returns the plans by the folders of their types.
func (s *suggesting) usesOf(ctx context.Context, dir string) (map[string][]policy.Use, error) {
	uses := map[string][]policy.Use{}
	if s.trial.file != "" {
		c, err := s.trial.readFiles(ctx)
		if err != nil {
			return nil, err
		}
		made, err := c.launchPlan(ctx)
		if err != nil {
			return nil, err
		}
		subject, err := s.policy.subjectOf(c.vmType.Name, c.host, c.spec.Options)
		uses[subject.Folder] = []policy.Use{{Plan: made, Subject: subject}}
		return uses, err
	}
	if err := requireFile("suggest", "folder", dir); err != nil {
		return nil, err
	}
	paths, err := sample.Find(dir)
	if err != nil {
		return nil, err
	}
	if len(paths) == 0 {
		return nil, cli.UsageError{Err: fmt.Errorf("there is no sample in %s: write NAME.yaml or NAME.txtar, or give -f",
			filepath.Clean(dir))}
	}
	in, err := containedIn(dir, &policyCheck{given: func() bool { return false }})
	if err != nil {
		return nil, err
	}
	defer in.close()
	for _, path := range paths {
		vm, err := sample.Read(path)
		if err != nil {
			return nil, err
		}
		host := vm.Host.Host()
		made, err := in.Launch(ctx, vm.Type, vm.VM, host)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, vm.Locate(err))
		}
		subject, err := s.policy.subjectOf(vm.Type, host, vm.VM.Options)
		if err != nil {
			return nil, err
		}
		uses[subject.Folder] = append(uses[subject.Folder], policy.Use{Plan: made, Subject: subject})
	}
	return uses, nil
}
