package vmtype

import (
	"context"
	"errors"
	"os"

	"github.com/spf13/cobra"

	"vmop/cmd/vmrunner/cli"
	"vmop/vmspec"
	"vmop/vmtypes"
	"vmop/vmtypes/evaluate"
	"vmop/vmtypes/format"
	"vmop/vmtypes/lsp"
	"vmop/vmtypes/plan"
	"vmop/vmtypes/vmtypestest"
)

func newLSP(Flags) *cobra.Command {
	return &cobra.Command{
		Use:   "lsp",
		Short: "Be the language server of an editor",
		Long: "lsp speaks the Language Server Protocol with an editor, on standard input and output.\n" +
			"The editor starts it; docs/vm-types/editors.md says how it is told to. What is wrong in\n" +
			"a folder of VM types is shown where it is: each type is evaluated with its samples and\n" +
			"tests whenever its author pauses, in a process with limits.",
		Example: "  vmrunner vmtype lsp",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			err := lsp.Serve(cmd.Context(), os.Stdin, os.Stdout, lsp.Options{Evaluator: bounded{}, Format: format.Source})
			if errors.Is(err, lsp.ErrNoShutdown) {
				return cli.ExitError{Code: 1} // as the protocol wants
			}
			return err
		},
	}
}

// bounded evaluates types in processes with limits.
type bounded struct{}

// Launch implements lsp.Evaluator.
func (bounded) Launch(ctx context.Context, source vmtypes.Source, name string, vm vmspec.Spec, host vmtypes.Host) (*plan.Plan, error) {
	return evaluate.Type{Source: source, Name: name}.Launch(ctx, vm, host)
}

// Diagnose implements lsp.Evaluator.
func (bounded) Diagnose(ctx context.Context, source vmtypes.Source, file string) error {
	return evaluate.Diagnose(ctx, source, file)
}

// Describe implements lsp.Evaluator.
func (bounded) Describe(ctx context.Context, source vmtypes.Source, name string) (vmtypes.Description, error) {
	return evaluate.Type{Source: source, Name: name}.Describe(ctx)
}

// Test implements lsp.Evaluator.
func (bounded) Test(ctx context.Context, source vmtypes.Source, file string) ([]vmtypestest.Result, error) {
	return evaluate.Test(ctx, source, file, nil)
}
