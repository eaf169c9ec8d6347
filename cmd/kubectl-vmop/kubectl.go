package main

import (
	"errors"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	v1 "vmop/api/v1"
	"vmop/internal/cli"
	"vmop/internal/cli/attach"
)

// newKubectl returns a verb that runs the verb of kubectl with all arguments.
func (f *flags) newKubectl(verb, short string) *cobra.Command {
	cmd := &cobra.Command{
		Use: verb + " [NAME...] [FLAG...]", Short: short, GroupID: groupLook, DisableFlagParsing: true,
		Long: "Run kubectl " + verb + " vms, with all of its flags.",
	}
	cmd.Example = "  kubectl vmop " + verb + " web"
	if verb == "get" {
		cmd.Example = "  kubectl vmop get -o wide\n  kubectl vmop get web -o yaml\n  kubectl vmop get --watch"
	}
	cmd.ValidArgsFunction = func(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
		return f.vmNames(cmd), cobra.ShellCompDirectiveNoFileComp
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if slices.Contains(args, "--help") || slices.Contains(args, "-h") {
			return cmd.Help()
		}
		err := attach.Run("kubectl", append([]string{verb, "vms." + v1.GroupName}, withoutKind(args)...))
		if err != nil && !errors.As(err, new(cli.ExitError)) {
			return hinted{err, "kubectl vmop " + verb + " needs kubectl in PATH"}
		}
		return err
	}
	return cmd
}

// withoutKind removes the kind from arguments such as "vm web" and "vm/web".
func withoutKind(args []string) []string {
	out := make([]string, 0, len(args))
	for i, arg := range args {
		if i == 0 && slices.Contains(vmKinds(), strings.ToLower(arg)) {
			continue
		}
		out = append(out, bareName(arg))
	}
	return out
}
