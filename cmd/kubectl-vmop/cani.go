package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	review "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "vmop/api/v1"
	"vmop/internal/cli"
)

// need is a permission in the cluster that a verb of this program requires.
type need struct{ verb, group, resource, subresource string }

// String returns the permission in kubectl's notation.
func (n need) String() string {
	text := n.verb + " " + n.resource
	if n.subresource != "" {
		text += "/" + n.subresource
	}
	return text
}

// verbNeeds returns the permissions that the verbs of this program require, in addition to reading the VM.
func verbNeeds() map[string]need {
	all := map[string]need{
		"get": {"get", v1.GroupName, "vms", ""}, "create": {"create", v1.GroupName, "vms", ""},
		"delete": {"delete", v1.GroupName, "vms", ""}, "expose": {"create", "", "services", ""},
		"events": {"list", "", "events", ""}, "diff": {"update", v1.GroupName, "vms", ""},
		"clone": {"create", v1.GroupName, "vms", ""}, "restore": {"patch", v1.GroupName, "vms", ""},
		"resize": {"patch", v1.GroupName, "vms", ""}, "cd": {"patch", v1.GroupName, "vms", ""},
	}
	for verb, right := range map[string]string{
		"list": "list", "create": "create", "resize": "patch", "remove": "delete",
	} {
		all["disk "+verb] = need{right, v1.GroupName, "virtualdisks", ""}
	}
	for verb, right := range map[string]string{"list": "list", "create": "create", "remove": "delete"} {
		all["snapshot "+verb] = need{right, v1.GroupName, "virtualmachinesnapshots", ""}
	}
	for verb, right := range map[string]string{"attach": "create", "detach": "delete"} {
		all["disk "+verb] = need{right, v1.GroupName, "virtualmachineblockdeviceattachments", ""}
	}
	for _, verb := range []string{"claim", "release"} {
		all["pool "+verb] = need{"patch", v1.GroupName, "vms", "status"}
	}
	for _, verb := range []string{"start", "stop", "restart", "reset"} {
		all[verb] = need{"create", v1.GroupName, "virtualmachineoperations", ""}
	}
	for _, verb := range []string{
		"pause", "resume", "console", "vnc", "spice", "screenshot", "ssh", "scp", "port-forward", "plan",
		"support-bundle",
	} {
		all[verb] = need{"create", "", "pods", "exec"}
	}
	return all
}

func newCanI(f *flags) *cobra.Command {
	cmd := &cobra.Command{
		Use: "can-i [VERB] [NAME]", Short: "Check your permissions for a VM", GroupID: groupLook,
		Long: "Check whether the API server allows you what a verb of this program needs. Without VERB\n" +
			"all verbs are listed. The exit code is 0 for yes and 1 for no. spec.permissions applies\n" +
			"to the manager's pages only.",
		Example:           "  kubectl vmop can-i console web\n  kubectl vmop can-i",
		ValidArgsFunction: cobra.FixedCompletions(canVerbs(), cobra.ShellCompDirectiveNoFileComp),
	}
	cmd.Args = func(_ *cobra.Command, args []string) error {
		switch {
		case len(args) > 4:
			return cli.UsageError{Err: errors.New("usage: kubectl vmop can-i [VERB] [NAME]")}
		case len(args) == 0:
			return nil
		}
		if verb, _ := canVerb(args); !slices.Contains(canVerbs(), verb) {
			return cli.UsageError{Err: fmt.Errorf("can-i %s: must be one of %s", verb, strings.Join(canVerbs(), ", "))}
		}
		return nil
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		c, err := f.connectTo(cmd)
		if err != nil {
			return err
		}
		if len(args) == 0 {
			return c.listRights(cmd)
		}
		verb, rest := canVerb(args)
		name, _ := splitName(rest)
		missing, err := c.missingRight(cmd, verb, diskNoun().bareName(name))
		if err != nil {
			return err
		}
		if missing != "" {
			if err := cli.WriteLine(cmd.OutOrStdout(), "no - "+missing); err != nil {
				return err
			}
			return cli.ExitError{Code: exitFailed}
		}
		return cli.WriteLine(cmd.OutOrStdout(), "yes")
	}
	return cmd
}

// canVerb splits the verb off the arguments: VERB, disk VERB or snapshot VERB.
func canVerb(args []string) (verb string, rest []string) {
	if len(args) > 1 && slices.Contains([]string{"disk", "pool", "snapshot"}, args[0]) {
		return args[0] + " " + args[1], args[2:]
	}
	return args[0], args[1:]
}

func canVerbs() []string {
	var verbs []string
	for verb := range verbNeeds() {
		verbs = append(verbs, verb)
	}
	slices.Sort(verbs)
	return verbs
}

func (c *cluster) listRights(cmd *cobra.Command) error {
	rows := [][]string{{"VERB", "ALLOWED", "WHY NOT"}}
	for _, verb := range canVerbs() {
		missing, err := c.missingRight(cmd, verb, "")
		if err != nil {
			return err
		}
		allowed := "yes"
		if missing != "" {
			allowed = "no"
		}
		rows = append(rows, []string{verb, allowed, missing})
	}
	return cli.Table(cmd.OutOrStdout(), rows)
}

// missingRight describes the permission that the user lacks for a verb, or returns "".
func (c *cluster) missingRight(cmd *cobra.Command, verb, name string) (string, error) {
	reviews, err := c.reviewClient()
	if err != nil {
		return "", err
	}
	n := verbNeeds()[verb]
	switch {
	case n.resource == "pods" && name != "":
		vm, err := c.getVM(cmd.Context(), name)
		if err != nil { // the user may not read it
			vm = &v1.VirtualMachine{ObjectMeta: metav1.ObjectMeta{Name: name}}
		}
		name = podNameOf(vm)
	case !slices.Contains([]string{"vms", "virtualdisks", "virtualmachinesnapshots"}, n.resource) || n.verb == "create":
		name = ""
	}
	var question review.SelfSubjectAccessReview
	question.Spec.ResourceAttributes = &review.ResourceAttributes{
		Namespace: c.namespace, Verb: n.verb, Group: n.group, Resource: n.resource, Subresource: n.subresource,
		Name: name,
	}
	answer, err := reviews.Create(cmd.Context(), &question, metav1.CreateOptions{})
	if err != nil {
		return "", fmt.Errorf("ask the API server what you may do: %w", err)
	}
	if answer.Status.Allowed {
		return "", nil
	}
	text := "you may not " + n.String()
	if answer.Status.Reason != "" {
		text += ": " + answer.Status.Reason
	}
	return text, nil
}
