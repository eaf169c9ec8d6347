package main

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"vmop/qmp"
	"vmop/runner/config"
)

// completeNames completes the NAME of a running VM.
func completeNames(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	given := cmd.Flags().Changed("config") || cmd.Flags().Changed("runtime-dir")
	if len(args) > 0 || given {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return socketNames(config.HostEnv()), cobra.ShellCompDirectiveNoFileComp
}

// completeConfigured completes the NAME of a configured VM.
func (f *flags) completeConfigured(
	cmd *cobra.Command, args []string, _ string,
) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 || cmd.Flags().Changed("config") {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	all, err := f.openInventory(cmd, nil)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	found, _ := all.Configured() // complete the readable names
	return found, cobra.ShellCompDirectiveNoFileComp
}

// completeQMP completes [NAME] COMMAND with the commands of the VM's QEMU.
func (t *target) completeQMP(
	cmd *cobra.Command, args []string, toComplete string,
) ([]string, cobra.ShellCompDirective) {
	found, directive := completeNames(cmd, args, toComplete)
	if len(found) > 0 || len(args) > 1 {
		return found, directive
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), queryTime)
	defer cancel()
	dir, err := t.findRuntimeDir(cmd, args)
	if err != nil {
		return nil, directive // the verb itself reports the error
	}
	client, err := dialDir(ctx, dir)
	if err != nil {
		return nil, directive
	}
	reply, err := client.QMP(ctx, qmp.Command{Execute: "query-commands"})
	var commands []struct{ Name string }
	if err != nil || json.Unmarshal(reply, &commands) != nil {
		return nil, directive
	}
	for _, c := range commands {
		if strings.HasPrefix(c.Name, toComplete) {
			found = append(found, c.Name)
		}
	}
	slices.Sort(found)
	return found, directive
}

// completeTypes completes --type with the VM types, and --set with the options of the VM type.
func (c *creation) completeTypes(cmd *cobra.Command) {
	types := func(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
		all, err := c.openInventory(cmd, nil)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		names, _ := all.Types() // complete the readable types
		return names, cobra.ShellCompDirectiveNoFileComp
	}
	settings := func(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
		all, err := c.openInventory(cmd, nil)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		about, _ := all.DescribeType(cmd.Context(), c.draft.Type) // create reports the error
		var paths []string
		for _, option := range about.Options {
			paths = append(paths, "vm.options."+option.Name+"=\t"+option.Doc)
		}
		return paths, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
	}
	if err := errors.Join(cmd.RegisterFlagCompletionFunc("type", types),
		cmd.RegisterFlagCompletionFunc("set", settings)); err != nil {
		panic(err) // cannot happen: the flags exist
	}
}
