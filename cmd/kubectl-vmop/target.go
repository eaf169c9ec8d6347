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
	"vmop/cli"
)

// kinds are the words that may come before the name of a VM: those of this project, and those
// that users of KubeVirt have typed since 2018.
func kinds() []string {
	return []string{
		"vm", "vms", "virtualmachine", "virtualmachines", "vmi", "vmis", "virtualmachineinstance",
		"virtualmachineinstances", "omv", "ovm", "offlinevirtualmachine", "vms." + v1.GroupName,
		"virtualmachine." + v1.GroupName,
	}
}

// bare returns the name in NAME or vm/NAME.
func bare(text string) string {
	kind, name, two := strings.Cut(text, "/")
	if two && slices.Contains(kinds(), strings.ToLower(kind)) {
		return name
	}
	return text
}

// split takes the name of a VM off the arguments: NAME, vm/NAME or vm NAME.
func split(args []string) (name string, rest []string) {
	if len(args) > 1 && slices.Contains(kinds(), strings.ToLower(args[0])) {
		args = args[1:]
	}
	if len(args) == 0 {
		return "", nil
	}
	return bare(args[0]), args[1:]
}

// oneVM makes a verb take NAME, and complete it.
func (f *flags) oneVM(cmd *cobra.Command) {
	f.aVMAnd(cmd, 0, 0)
}

// aVMAnd makes a verb take NAME and further arguments, at least so many and at most so many; -1
// is any number.
func (f *flags) aVMAnd(cmd *cobra.Command, least, most int) {
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		name, rest := split(args)
		switch {
		case name == "":
			return cli.UsageError{Err: errors.New("which VM? " + usage(cmd))}
		case len(rest) < least, most >= 0 && len(rest) > most:
			return cli.UsageError{Err: errors.New("want: " + usage(cmd))}
		}
		return nil
	}
	cmd.ValidArgsFunction = f.completeNames
}

// usage returns how a verb is called.
func usage(cmd *cobra.Command) string { return strings.TrimSuffix(cmd.UseLine(), " [flags]") }

// completionTime bounds a request of a shell.
const completionTime = 5 * time.Second

// completeNames completes the name of a VM.
func (f *flags) completeNames(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if name, _ := split(args); name != "" && !slices.Contains(kinds(), name) {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return f.names(cmd), cobra.ShellCompDirectiveNoFileComp
}

// names returns the names of the VMs, none if they can't be read.
func (f *flags) names(cmd *cobra.Command) (names []string) {
	ctx, cancel := context.WithTimeout(cmd.Context(), completionTime)
	defer cancel()
	if m, err := f.viaManager(cmd); m != nil || err != nil {
		return m.names(ctx)
	}
	c, err := f.connect(cmd)
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
			panic(err) // there is no such flag
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
		c, err := f.connect(cmd)
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

// flagsVariable hands the flags of the connection to another process of this program, which ssh starts: the list of
// processes, which every user can read, would have a --token.
const flagsVariable = "KUBECTL_VMOP_FLAGS"

// handOn makes the processes that are started from now on connect as the user has said.
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

// takeOver sets the flags that were handed on, if there are any. What the call itself says comes first.
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

// waiting are the flags --wait and --timeout.
type waiting struct {
	wait  bool
	limit time.Duration
}

func (w *waiting) add(cmd *cobra.Command, until string) {
	cmd.Flags().BoolVar(&w.wait, "wait", false, "wait until "+until)
	cmd.Flags().DurationVar(&w.limit, "timeout", 0, "limit for --wait, such as 5m (0: none)")
	check := cmd.PreRunE
	cmd.PreRunE = func(cmd *cobra.Command, args []string) error {
		if w.limit != 0 && !w.wait {
			return cli.UsageError{Err: errors.New("--timeout needs --wait")}
		}
		if check != nil {
			return check(cmd, args)
		}
		return nil
	}
}

// context returns the one of the wait.
func (w *waiting) context(ctx context.Context) (context.Context, context.CancelFunc) {
	if w.limit == 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeoutCause(ctx, w.limit, errTimeout)
}

// printDone reports what was done to an object, in the form that -o says.
func printDone(cmd *cobra.Command, form string, object any, kind, name, done string) error {
	switch form {
	case "json", "yaml":
		return cli.PrintValue(cmd.OutOrStdout(), form, object)
	case "name":
		return cli.WriteLine(cmd.OutOrStdout(), kind+"/"+name)
	}
	return cli.WriteLine(cmd.OutOrStdout(), kind+"/"+name+" "+done)
}

// vmKind is what kubectl calls a VM.
const vmKind = "virtualmachine." + v1.GroupName

// doneFlag adds -o for verbs that change something.
func doneFlag(cmd *cobra.Command, form *string) {
	cli.OutputFlag(cmd, form, "text", "name", "json", "yaml")
}
