// Package vmtype implements "vmrunner vmtype": the commands for authors to write, test, review and publish VM types.
//
// Each verb is in a separate file. It parses its arguments, calls a package that is independent of the command line,
// and prints the result. [Main] is the entry point.
package vmtype

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/spf13/cobra"

	"vmop/internal/cli"
	"vmop/internal/cli/typeflags"
	"vmop/internal/spelling"
	"vmop/internal/yamlfile"
)

// Flags are the flags of the whole program that the verbs use.
type Flags struct {
	// Folder is the folder of custom VM types (--vmtypes).
	Folder *string
	// Policy is the file with the policy for VM types (--vmtypes-policy).
	Policy *string
}

// Main runs the verb in the arguments of vmrunner, which include vmtype, and returns the exit code.
func Main(parent context.Context, args []string) (code int) {
	ctx, stop := cli.UntilSignal(parent)
	defer stop()
	root := newRoot()
	root.SetArgs(quoteArguments(args, root))
	err := misplacedVerb(root, args)
	if err == nil {
		err = root.ExecuteContext(ctx)
	}
	var exit cli.ExitError
	var signal cli.SignalError
	var faults yamlfile.Faults
	switch {
	case err == nil:
		return 0
	case errors.As(err, &exit):
		return exit.Code
	}
	fmt.Fprintln(os.Stderr, "vmrunner:", cli.Describe(err))
	switch {
	case errors.As(err, &signal):
		return signal.ExitCode()
	case errors.As(err, &faults), errors.As(err, new(cli.UsageError)):
		return cli.ExitUsage
	}
	return exitFailed
}

// misplacedVerb returns an error with the correct call if a verb follows the name of this program directly.
func misplacedVerb(root *cobra.Command, args []string) error {
	for _, vmtype := range root.Commands() {
		if len(args) > 0 && vmtype.Name() == "vmtype" && slices.Contains(listedVerbs(vmtype), args[0]) {
			return cli.UsageError{Err: fmt.Errorf("vmtype is a verb of vmrunner: vmrunner vmtype %s", args[0])}
		}
	}
	return nil
}

// newRoot returns the part of vmrunner's command tree that authors use.
func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use: "vmrunner", Args: cli.NoArguments, RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cli.SetUp(root, "")
	var types typeflags.Flags
	types.Add(root)
	verbs := newVmtypeCommand(Flags{Folder: &types.Folder, Policy: &types.Policy})
	root.AddCommand(verbs)
	usual := root.HelpFunc()
	root.SetHelpFunc(func(cmd *cobra.Command, args []string) {
		if cmd == root { // the program was called directly: "vmtype --help"
			cmd = verbs
			cmd.InitDefaultHelpFlag()
		}
		usual(cmd, args)
	})
	return root
}

// newVmtypeCommand returns the command with all verbs.
func newVmtypeCommand(f Flags) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "vmtype",
		Short: "Write, test and compare VM types",
		Long: "Write, test and share VM types: Starlark modules that compute QEMU's arguments\n" +
			"from the vm section of a configuration (docs/vm-types). These commands start no VM and need no\n" +
			"privileges.",
		Args: knownVerb,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	for _, group := range []struct {
		title string
		verbs []*cobra.Command
	}{
		{"Write:", []*cobra.Command{newNew(f), newAdopt(f), newFmt(f), newLint(f), newRepl(f), newLSP(f), newStubs(f)}},
		{"Examine:", []*cobra.Command{
			newListCommand(f), newShow(f), newExplain(f), newDoc(f), newRender(f),
			newWhy(f),
		}},
		{"Test:", []*cobra.Command{newTest(f), newCheck(f), newDiff(f)}},
		{"Share:", []*cobra.Command{newPush(f), newPull(f), newVendor(f), newPolicy(f)}},
	} {
		cmd.AddGroup(&cobra.Group{ID: group.title, Title: group.title})
		for _, verb := range group.verbs {
			verb.GroupID = group.title
			cmd.AddCommand(verb)
		}
	}
	cmd.AddCommand(newHelp(cmd))
	return cmd
}

// newHelp returns the verb help. It is hidden, like --help.
func newHelp(of *cobra.Command) *cobra.Command {
	return &cobra.Command{
		Use: "help [VERB]", Short: "Explain a verb", Hidden: true,
		Args: func(_ *cobra.Command, args []string) error { return knownVerb(of, args) },
		RunE: func(_ *cobra.Command, args []string) error {
			verb, _, err := of.Find(args)
			if err == nil {
				verb.InitDefaultHelpFlag() // cobra only adds it to the command that it runs
				err = verb.Help()
			}
			return err
		},
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return listedVerbs(of), cobra.ShellCompDirectiveNoFileComp
		},
	}
}

// noMore rejects arguments other than flags.
func noMore(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	return cli.UsageError{Err: fmt.Errorf("%s takes no arguments, got %q", cmd.Name(), args[0])}
}

// listedVerbs returns the names of the verbs in the help.
func listedVerbs(of *cobra.Command) []string {
	var names []string
	for _, verb := range of.Commands() {
		if !verb.Hidden {
			names = append(names, verb.Name())
		}
	}
	return names
}

// knownVerb rejects an unknown verb.
func knownVerb(cmd *cobra.Command, args []string) error {
	if len(args) == 0 || slices.Contains(listedVerbs(cmd), args[0]) {
		return nil
	}
	hint := "\"vmrunner vmtype\" lists them"
	if near := spelling.Nearest(args[0], listedVerbs(cmd)); near != "" {
		hint = "did you mean " + near + "?"
	}
	return cli.UsageError{Err: fmt.Errorf("there is no verb %q (%s)", args[0], hint)}
}
