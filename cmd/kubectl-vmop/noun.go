package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"vmop/internal/cli"
)

// noun is a kind of object with separate verbs, such as kubectl vmop disk list.
type noun struct {
	word  string // the verb with the subcommands for it
	short string // short name of the resource
	kind  string // kubectl's name for the kind
	list  func(context.Context, *cluster, metav1.ListOptions) (runtime.Object, error)
}

// diskNoun returns the noun for VirtualDisks.
func diskNoun() noun {
	list := func(ctx context.Context, c *cluster, o metav1.ListOptions) (runtime.Object, error) {
		return c.disks.List(ctx, o)
	}
	return noun{"disk", "vd", diskKind, list}
}

// imageNoun returns the noun for VirtualImages.
func imageNoun() noun {
	list := func(ctx context.Context, c *cluster, o metav1.ListOptions) (runtime.Object, error) {
		return c.images.List(ctx, o)
	}
	return noun{"image", "vi", imageKind, list}
}

// bareName returns the name in NAME or, for a disk, vd/NAME.
func (n noun) bareName(text string) string {
	kind, name, two := strings.Cut(text, "/")
	long, _, _ := strings.Cut(n.kind, ".")
	if two && slices.Contains([]string{n.short, n.short + "s", long, long + "s", n.kind}, strings.ToLower(kind)) {
		return name
	}
	return text
}

// takeName makes a verb require the name of an object, and complete it. The verb also requires the given number of
// further arguments, which the shell completes according to completion.
func (n noun) takeName(f *flags, cmd *cobra.Command, further int, completion cobra.ShellCompDirective) {
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) == 0 || n.bareName(args[0]) == "":
			return cli.UsageError{Err: errors.New("which " + n.word + "? " + usageOf(cmd))}
		case len(args) != 1+further:
			return cli.UsageError{Err: errors.New("usage: " + usageOf(cmd))}
		}
		return nil
	}
	cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, completion
		}
		return n.objectNames(f, cmd), cobra.ShellCompDirectiveNoFileComp
	}
}

// objectNames returns the names of the objects in the namespace, or an empty list if they can't be read.
func (n noun) objectNames(f *flags, cmd *cobra.Command) (names []string) {
	c, err := f.onlyCluster(cmd)
	if err != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), completionTime)
	defer cancel()
	list, err := n.list(ctx, c, metav1.ListOptions{ResourceVersion: "0"})
	if err != nil {
		return nil
	}
	_ = meta.EachListItem(list, func(o runtime.Object) error {
		if m, err := meta.Accessor(o); err == nil {
			names = append(names, m.GetName())
		}
		return nil
	})
	return names
}

// completeFlag makes shells complete a flag's value with the names of the objects.
func (n noun) completeFlag(f *flags, cmd *cobra.Command, flag string) {
	names := func(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
		return n.objectNames(f, cmd), cobra.ShellCompDirectiveNoFileComp
	}
	if err := cmd.RegisterFlagCompletionFunc(flag, names); err != nil {
		panic(err) // cannot happen: the flag exists
	}
}

// wantSubcommand is the action of a verb without a subcommand.
func wantSubcommand(cmd *cobra.Command, _ []string) error {
	var names []string
	for _, sub := range cmd.Commands() {
		names = append(names, sub.Name())
	}
	return cli.UsageError{Err: errors.New("usage: " + cmd.CommandPath() + " " + strings.Join(names, "|"))}
}

// newNounList returns the verb that lists the objects of a word.
func newNounList(f *flags, word, long string, list func(cmd *cobra.Command, c *cluster,
	form string) error,
) *cobra.Command {
	var form string
	cmd := &cobra.Command{
		Use: "list", Short: "List the " + word + "s of the namespace", Args: cli.NoArguments, Long: long,
		Example: "  kubectl vmop " + word + " list", ValidArgsFunction: cobra.NoFileCompletions,
	}
	cli.OutputFlag(cmd, &form, "text", "name", "json", "yaml")
	cmd.RunE = f.inCluster(&waiting{}, func(_ context.Context, cmd *cobra.Command, c *cluster, _ []string) error {
		return list(cmd, c, form)
	})
	return cmd
}

// inCluster returns the function that executes a verb that the manager's API does not support, within the time
// limit of its wait.
func (f *flags) inCluster(
	w *waiting, do func(ctx context.Context, cmd *cobra.Command, c *cluster, args []string) error,
) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		c, err := f.onlyCluster(cmd)
		if err != nil {
			return err
		}
		ctx, cancel := w.waitContext(cmd.Context())
		defer cancel()
		return do(ctx, cmd, c, args)
	}
}

// deleteOptions returns the options for deleting exactly this object, even if another object has its name by now. If
// wait is true, the objects that it owns are deleted first.
func deleteOptions(of metav1.Object, wait bool) metav1.DeleteOptions {
	how := metav1.DeletePropagationBackground
	if wait {
		how = metav1.DeletePropagationForeground
	}
	return metav1.DeleteOptions{PropagationPolicy: &how, Preconditions: metav1.NewUIDPreconditions(string(of.GetUID()))}
}

// explainObject adds a hint for the user to an error about an object.
func (n noun) explainObject(c *cluster, name string, err error) error {
	if !isMissingObject(err) {
		return unknownKind(err)
	}
	return hinted{
		fmt.Errorf("there is no %s %s in namespace %s: %w", n.word, name, c.namespace, err),
		"list the " + n.word + "s by: kubectl vmop " + n.word + " list",
	}
}
