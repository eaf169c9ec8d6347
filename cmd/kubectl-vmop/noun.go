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

	"vmop/cli"
)

// A noun is a kind of object with verbs of its own: kubectl vmop disk list.
type noun struct {
	word  string // the verb whose subcommands are about it
	short string // name of the resource
	kind  string // what kubectl calls an object
	list  func(context.Context, *cluster, metav1.ListOptions) (runtime.Object, error)
}

// disks are VirtualDisks.
func disks() noun {
	list := func(ctx context.Context, c *cluster, o metav1.ListOptions) (runtime.Object, error) {
		return c.disks.List(ctx, o)
	}
	return noun{"disk", "vd", diskKind, list}
}

// images are VirtualImages.
func images() noun {
	list := func(ctx context.Context, c *cluster, o metav1.ListOptions) (runtime.Object, error) {
		return c.images.List(ctx, o)
	}
	return noun{"image", "vi", imageKind, list}
}

// name returns the name in NAME or, of a disk, vd/NAME.
func (n noun) name(text string) string {
	kind, name, two := strings.Cut(text, "/")
	long, _, _ := strings.Cut(n.kind, ".")
	if two && slices.Contains([]string{n.short, n.short + "s", long, long + "s", n.kind}, strings.ToLower(kind)) {
		return name
	}
	return text
}

// takes makes a verb take the name of an object, and complete it, and so many further arguments, which
// the shell completes as completion says.
func (n noun) takes(f *flags, cmd *cobra.Command, further int, completion cobra.ShellCompDirective) {
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) == 0 || n.name(args[0]) == "":
			return cli.UsageError{Err: errors.New("which " + n.word + "? " + usage(cmd))}
		case len(args) != 1+further:
			return cli.UsageError{Err: errors.New("want: " + usage(cmd))}
		}
		return nil
	}
	cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, completion
		}
		return n.names(f, cmd), cobra.ShellCompDirectiveNoFileComp
	}
}

// names returns the names of the objects of the namespace, none if they can't be read.
func (n noun) names(f *flags, cmd *cobra.Command) (names []string) {
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
		return n.names(f, cmd), cobra.ShellCompDirectiveNoFileComp
	}
	if err := cmd.RegisterFlagCompletionFunc(flag, names); err != nil {
		panic(err) // there is no such flag
	}
}

// wantSubcommand is what a verb does without one.
func wantSubcommand(cmd *cobra.Command, _ []string) error {
	var names []string
	for _, sub := range cmd.Commands() {
		names = append(names, sub.Name())
	}
	return cli.UsageError{Err: errors.New("want: " + cmd.CommandPath() + " " + strings.Join(names, "|"))}
}

// newList returns the verb that lists what is called by a word.
func newList(f *flags, word, long string, list func(cmd *cobra.Command, c *cluster, form string) error) *cobra.Command {
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

// inCluster returns what carries out a verb that the manager has no request for, within the limit of its wait.
func (f *flags) inCluster(
	w *waiting, do func(ctx context.Context, cmd *cobra.Command, c *cluster, args []string) error,
) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		c, err := f.onlyCluster(cmd)
		if err != nil {
			return err
		}
		ctx, cancel := w.context(cmd.Context())
		defer cancel()
		return do(ctx, cmd, c, args)
	}
}

// deletion returns how an object is deleted, and no other of its name: if that is waited for, after what it owns.
func deletion(of metav1.Object, wait bool) metav1.DeleteOptions {
	how := metav1.DeletePropagationBackground
	if wait {
		how = metav1.DeletePropagationForeground
	}
	return metav1.DeleteOptions{PropagationPolicy: &how, Preconditions: metav1.NewUIDPreconditions(string(of.GetUID()))}
}

// explain adds to an error about an object what the user can do.
func (n noun) explain(c *cluster, name string, err error) error {
	if !absent(err) {
		return unknownKind(err)
	}
	return hinted{
		fmt.Errorf("there is no %s %s in namespace %s: %w", n.word, name, c.namespace, err),
		"list the " + n.word + "s by: kubectl vmop " + n.word + " list",
	}
}
