package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"

	v1 "vmop/api/v1"
	"vmop/internal/cli"
)

// vmKinds returns the words that may precede the name of a VM: this project's words, and the words that users of
// KubeVirt have typed since 2018.
func vmKinds() []string {
	return []string{
		"vm", "vms", "virtualmachine", "virtualmachines", "vmi", "vmis", "virtualmachineinstance",
		"virtualmachineinstances", "omv", "ovm", "offlinevirtualmachine", "vms." + v1.GroupName,
		"virtualmachine." + v1.GroupName,
	}
}

// bareName returns the name in NAME or vm/NAME.
func bareName(text string) string {
	kind, name, two := strings.Cut(text, "/")
	if two && slices.Contains(vmKinds(), strings.ToLower(kind)) {
		return name
	}
	return text
}

// splitName splits the name of a VM off the arguments: NAME, vm/NAME or vm NAME.
func splitName(args []string) (name string, rest []string) {
	if len(args) > 1 && slices.Contains(vmKinds(), strings.ToLower(args[0])) {
		args = args[1:]
	}
	if len(args) == 0 {
		return "", nil
	}
	return bareName(args[0]), args[1:]
}

// oneVM makes a verb require NAME, and complete it.
func (f *flags) oneVM(cmd *cobra.Command) {
	f.aVMAnd(cmd, 0, 0)
}

// aVMAnd makes a verb require NAME and between least and most further arguments. If most is -1, their number is
// unlimited.
func (f *flags) aVMAnd(cmd *cobra.Command, least, most int) {
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		name, rest := splitName(args)
		switch {
		case name == "":
			return cli.UsageError{Err: errors.New("which VM? " + usageOf(cmd))}
		case len(rest) < least, most >= 0 && len(rest) > most:
			return cli.UsageError{Err: errors.New("usage: " + usageOf(cmd))}
		}
		return nil
	}
	cmd.ValidArgsFunction = f.completeNames
}

// usageOf returns the usage line of a verb.
func usageOf(cmd *cobra.Command) string { return strings.TrimSuffix(cmd.UseLine(), " [flags]") }

// completionTime limits the time for completing a name in a shell.
const completionTime = 5 * time.Second

// completeNames completes the name of a VM.
func (f *flags) completeNames(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if name, _ := splitName(args); name != "" && !slices.Contains(vmKinds(), name) {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return f.vmNames(cmd), cobra.ShellCompDirectiveNoFileComp
}

// vmNames returns the names of the VMs, or an empty list if they can't be read.
func (f *flags) vmNames(cmd *cobra.Command) (names []string) {
	ctx, cancel := context.WithTimeout(cmd.Context(), completionTime)
	defer cancel()
	if m, err := f.viaManager(cmd); m != nil || err != nil {
		return m.someNames(ctx)
	}
	c, err := f.connectTo(cmd)
	if err != nil {
		return nil
	}
	list, err := c.vms.List(ctx, metav1.ListOptions{ResourceVersion: "0"})
	if err != nil {
		return nil
	}
	for _, vm := range list.Items {
		names = append(names, vm.Name)
	}
	return names
}

// completeConnection completes --namespace and --context.
func (f *flags) completeConnection(root *cobra.Command) {
	by := func(flag string, list func(*cobra.Command) []string) {
		if err := root.RegisterFlagCompletionFunc(flag, func(cmd *cobra.Command, _ []string, _ string) (
			[]string, cobra.ShellCompDirective,
		) {
			return list(cmd), cobra.ShellCompDirectiveNoFileComp
		}); err != nil {
			panic(err) // cannot happen: the flag exists
		}
	}
	by(clientcmd.FlagContext, func(*cobra.Command) (names []string) {
		config, err := f.rules.Load()
		if err != nil {
			return nil
		}
		for name := range config.Contexts {
			names = append(names, name)
		}
		slices.Sort(names)
		return names
	})
	by(clientcmd.FlagNamespace, func(cmd *cobra.Command) (names []string) {
		c, err := f.connectTo(cmd)
		if err != nil {
			return nil
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), completionTime)
		defer cancel()
		list, err := c.core.Namespaces().List(ctx, metav1.ListOptions{})
		if err != nil {
			return nil
		}
		for _, namespace := range list.Items {
			names = append(names, namespace.Name)
		}
		return names
	})
}

// flagsVariable passes the connection flags to another process of this program, which ssh starts. Arguments would
// show a --token in the list of processes, which every user can read.
const flagsVariable = "KUBECTL_VMOP_FLAGS"

// handOn makes processes that are started from now on use the user's connection flags.
func handOn(cmd *cobra.Command) error {
	given := map[string][]string{}
	cmd.Root().PersistentFlags().VisitAll(func(flag *pflag.Flag) {
		list, several := flag.Value.(pflag.SliceValue)
		switch {
		case flag.Changed && several:
			given[flag.Name] = list.GetSlice()
		case flag.Changed:
			given[flag.Name] = []string{flag.Value.String()}
		}
	})
	text, err := json.Marshal(given)
	if err != nil {
		return fmt.Errorf("hand the connection on: %w", err)
	}
	return os.Setenv(flagsVariable, string(text))
}

// takeOver sets the flags that handOn has passed on. The process's own flags take precedence.
func takeOver(cmd *cobra.Command) error {
	var given map[string][]string
	text := os.Getenv(flagsVariable)
	if text == "" {
		return nil
	}
	if err := json.Unmarshal([]byte(text), &given); err != nil {
		return fmt.Errorf("read %s: %w", flagsVariable, err)
	}
	flags := cmd.Root().PersistentFlags()
	for name, values := range given {
		if flags.Changed(name) {
			continue
		}
		for _, value := range values {
			if err := flags.Set(name, value); err != nil {
				return fmt.Errorf("read %s: --%s: %w", flagsVariable, name, err)
			}
		}
	}
	return nil
}

// waiting contains the flags --wait and --timeout.
type waiting struct {
	wait  bool
	limit time.Duration
}

func (w *waiting) addFlags(cmd *cobra.Command, until string) {
	cli.WaitFlags(cmd, &w.wait, &w.limit, until)
}

// addLimit adds a --timeout that applies even without --wait.
func (w *waiting) addLimit(cmd *cobra.Command) {
	cmd.Flags().DurationVar(&w.limit, "timeout", 0, "fail after this `DURATION`, such as 30m (default no limit)")
}

// waitContext returns the context for the wait.
func (w *waiting) waitContext(ctx context.Context) (context.Context, context.CancelFunc) {
	if w.limit == 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeoutCause(ctx, w.limit, errTimeout)
}

// printDone reports the action on an object in the form given by -o.
func printDone(cmd *cobra.Command, form string, object any, kind, name, done string) error {
	switch form {
	case "json", "yaml":
		return cli.PrintValue(cmd.OutOrStdout(), form, object)
	case "name":
		return cli.WriteLine(cmd.OutOrStdout(), kind+"/"+name)
	}
	return cli.WriteLine(cmd.OutOrStdout(), kind+"/"+name+" "+done)
}

// vmKind is kubectl's name for the kind of a VM.
const vmKind = "virtualmachine." + v1.GroupName

// dryRunFlag adds --dry-run.
func dryRunFlag(cmd *cobra.Command, mode *string) {
	cmd.Flags().StringVar(mode, "dry-run", "none",
		"dry-run `MODE`: none, server (the API server only checks the objects) or client (no object is sent)")
	cli.CompleteFlag(cmd, "dry-run", "none", "server", "client")
}

// doneFlag adds -o to verbs that change an object.
func doneFlag(cmd *cobra.Command, form *string) {
	cli.OutputFlag(cmd, form, "text", "name", "json", "yaml")
}
