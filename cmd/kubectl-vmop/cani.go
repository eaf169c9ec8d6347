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

// verbNeeds returns the permissions that each verb of this program requires, in addition to reading the VM. The verbs
// without permissions work without the API server.
func verbNeeds() map[string][]need {
	of := func(verb, resource string) need { return need{verb, v1.GroupName, resource, ""} }
	exec := need{"create", "", "pods", "exec"}
	const disks, images, snapshots = "virtualdisks", "virtualimages", "virtualmachinesnapshots"
	const attachments, operations = "virtualmachineblockdeviceattachments", "virtualmachineoperations"
	all := map[string][]need{
		"get": {of("get", "vms")}, "describe": {of("get", "vms")}, "why": {of("get", "vms")},
		"create": {of("create", "vms")}, "clone": {of("create", "vms")}, "delete": {of("delete", "vms")},
		"diff": {of("update", "vms")}, "restore": {of("patch", "vms")}, "resize": {of("patch", "vms")},
		"cd insert": {of("patch", "vms")}, "cd eject": {of("patch", "vms")},
		"expose": {{"create", "", "services", ""}}, "events": {{"list", "", "events", ""}},
		"top":       {of("list", "vms"), exec},
		"disk list": {of("list", disks)}, "disk create": {of("create", disks)}, "disk resize": {of("patch", disks)},
		"image list": {of("list", images)}, "image pull": {of("create", images)},
		"snapshot list": {of("list", snapshots)}, "snapshot create": {of("create", snapshots)},
		"snapshot remove": {of("delete", snapshots)},
		"pool list":       {of("list", "vmpools")}, "pool get": {of("list", "vmpools")},
		"pool claim":   {{"patch", v1.GroupName, "vms", "status"}, of("create", operations)},
		"pool release": {{"patch", v1.GroupName, "vms", "status"}},
		"can-i":        {}, "help": {}, "version": {},
		"completion bash": {}, "completion fish": {}, "completion powershell": {}, "completion zsh": {},
	}
	for word, resource := range map[string]string{"disk": disks, "image": images} {
		all[word+" upload"] = []need{of("create", resource), exec}
		all[word+" export"] = []need{of("patch", resource), exec}
		all[word+" remove"] = []need{of("delete", resource)}
		all[word+" attach"] = []need{of("create", attachments)}
		all[word+" detach"] = []need{of("delete", attachments)}
	}
	for _, verb := range []string{"start", "stop", "restart", "reset", "migrate", "evict"} {
		all[verb] = []need{of("create", operations)}
	}
	for _, verb := range []string{
		"pause", "resume", "reclaim", "console", "vnc", "spice", "screenshot", "ssh", "scp", "port-forward", "plan",
		"support-bundle",
	} {
		all[verb] = []need{exec}
	}
	return all
}

func newCanI(f *flags) *cobra.Command {
	cmd := &cobra.Command{
		Use: "can-i [VERB] [NAME]", Short: "Check your permissions for a VM", GroupID: groupLook,
		Long: "Check whether the API server allows you what a verb of this program needs. Without VERB\n" +
			"the result for each verb that needs permissions is listed. The exit code is 0 for yes and\n" +
			"1 for no. spec.permissions applies to the manager's pages only.",
		Example: "  kubectl vmop can-i console web\n  kubectl vmop can-i",
	}
	cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return listVerbs(cmd.Root()), cobra.ShellCompDirectiveNoFileComp
	}
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		_, _, err := chooseVerb(cmd.Root(), args)
		return err
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		c, err := f.connectTo(cmd)
		if err != nil {
			return err
		}
		if len(args) == 0 {
			return c.listRights(cmd)
		}
		verb, rest, err := chooseVerb(cmd.Root(), args)
		if err != nil {
			return err
		}
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

// listVerbs returns all verbs that the help of a command shows, as typed.
func listVerbs(cmd *cobra.Command) (all []string) {
	for _, verb := range cmd.Commands() {
		if !verb.IsAvailableCommand() && verb.Name() != "help" {
			continue
		}
		if verb.HasSubCommands() {
			all = append(all, listVerbs(verb)...)
			continue
		}
		all = append(all, typedVerb(verb))
	}
	return all
}

// typedVerb returns a verb as typed: VERB, or disk VERB.
func typedVerb(cmd *cobra.Command) string {
	return strings.TrimPrefix(cmd.CommandPath(), cmd.Root().CommandPath()+" ")
}

// chooseVerb splits the verb off the arguments. Without arguments, verb is "".
func chooseVerb(root *cobra.Command, args []string) (verb string, rest []string, err error) {
	if len(args) == 0 {
		return "", nil, nil
	}
	cmd, rest := root, args
	for cmd.HasSubCommands() {
		if len(rest) == 0 {
			return "", nil, cli.UsageError{Err: fmt.Errorf("can-i %s: add one of its verbs: %s", typedVerb(cmd),
				strings.Join(listVerbs(cmd), ", "))}
		}
		i := slices.IndexFunc(cmd.Commands(), func(sub *cobra.Command) bool {
			return !sub.Hidden && (sub.Name() == rest[0] || sub.HasAlias(rest[0]))
		})
		if i < 0 {
			return "", nil, cli.NoArguments(cmd, rest)
		}
		cmd, rest = cmd.Commands()[i], rest[1:]
	}
	if len(rest) > 2 { // vm NAME
		return "", nil, cli.UsageError{Err: errors.New("usage: kubectl vmop can-i [VERB] [NAME]")}
	}
	return typedVerb(cmd), rest, nil
}

func (c *cluster) listRights(cmd *cobra.Command) error {
	rows := [][]string{{"VERB", "ALLOWED", "WHY NOT"}}
	answers := map[need]string{}
	for _, verb := range listVerbs(cmd.Root()) {
		needs := verbNeeds()[verb]
		if len(needs) == 0 {
			continue
		}
		allowed, missing := "yes", ""
		for _, n := range needs {
			answer, known := answers[n]
			if !known {
				var err error
				if answer, err = c.reviewNeed(cmd, n, ""); err != nil {
					return err
				}
				answers[n] = answer
			}
			if answer != "" && missing == "" {
				allowed, missing = "no", answer
			}
		}
		rows = append(rows, []string{verb, allowed, missing})
	}
	return cli.Table(cmd.OutOrStdout(), rows)
}

// missingRight describes the first permission that the user lacks for a verb, or returns "".
func (c *cluster) missingRight(cmd *cobra.Command, verb, name string) (missing string, err error) {
	for _, n := range verbNeeds()[verb] {
		of := name
		switch named := []string{"vms", "virtualdisks", "virtualimages", "virtualmachinesnapshots"}; {
		case n.resource == "pods" && name != "" && !strings.Contains(verb, " "):
			vm, err := c.getVM(cmd.Context(), name)
			if err != nil { // the user may not read it
				vm = &v1.VirtualMachine{ObjectMeta: metav1.ObjectMeta{Name: name}}
			}
			of = podNameOf(vm)
		case !slices.Contains(named, n.resource) || n.verb == "create":
			of = ""
		}
		if missing, err = c.reviewNeed(cmd, n, of); missing != "" || err != nil {
			return missing, err
		}
	}
	return "", nil
}

// reviewNeed asks the API server for a permission. It describes the permission if the user lacks it, or returns "".
func (c *cluster) reviewNeed(cmd *cobra.Command, n need, name string) (missing string, err error) {
	reviews, err := c.reviewClient()
	if err != nil {
		return "", err
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
