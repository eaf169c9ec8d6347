package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/yaml"

	v1 "vmop/api/v1"
	"vmop/internal/cli"
	"vmop/internal/readfile"
	"vmop/internal/yamlfile"
	"vmop/manager"
	"vmop/manager/vm/takeover"
)

const takeoverText = `Read a namespace of VM-Operator, or files with its resources. For each VM, each pool and the
manager's configuration, or for the given VMs, show what stays as it is, what changes, and what
doesn't work and why. Nothing is changed without --apply or --undo. The exit code is 1 if something
doesn't work.

--apply hands VMs over, one by one: all, or the given VMs. VM-Operator's manager must have no pods.
A running guest keeps running in VM-Operator's pod, unless --stop shuts it down. Only pods and
StatefulSets of VM-Operator are deleted. Definitions, disks and data stay.

--undo hands VMs back when our manager has no pods: it deletes the StatefulSets that our manager
created, so that VM-Operator's manager can use the VMs again.`

const takeoverExamples = `  vmmanager takeover -n vms
  vmmanager takeover -f vms.yaml -f config.yaml -o json
  vmmanager takeover -n vms --print-config > config.yaml
  vmmanager takeover -n vms --apply --stop web`

// takeoverFlags are the flags of takeover.
type takeoverFlags struct {
	files       []string
	rules       *clientcmd.ClientConfigLoadingRules
	overrides   clientcmd.ConfigOverrides
	form        string
	printConfig bool
	apply, undo bool
	stop        bool
	timeout     time.Duration
}

func newTakeover() *cobra.Command {
	f := takeoverFlags{rules: clientcmd.NewDefaultClientConfigLoadingRules()}
	cmd := &cobra.Command{
		Use: "takeover [VM...]", Short: "Take over the VMs of VM-Operator",
		Long: takeoverText, Example: takeoverExamples, ValidArgsFunction: cobra.NoFileCompletions,
		Args: func(cmd *cobra.Command, vms []string) error {
			switch changes := f.apply || f.undo; {
			case f.apply && f.undo:
				return cli.UsageError{Err: errors.New("--apply and --undo are opposites")}
			case changes && (len(f.files) > 0 || f.printConfig || f.form != "text"):
				return cli.UsageError{Err: errors.New("--apply and --undo change a cluster: " +
					"leave out -f, -o and --print-config")}
			case f.printConfig && len(vms) > 0:
				return cli.UsageError{Err: errors.New("--print-config is about no VM")}
			case !changes && (f.stop || cmd.Flags().Changed("timeout")):
				return cli.UsageError{Err: errors.New("--stop and --timeout are for --apply and --undo")}
			case f.form != "text" && f.form != "json":
				return cli.UsageError{Err: fmt.Errorf("-o %s: must be text or json", f.form)}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, vms []string) error { return f.runTakeover(cmd, vms) },
	}
	p := cmd.Flags()
	p.StringArrayVarP(&f.files, "filename", "f", nil,
		"`FILE` with resources, or with the configuration of a manager,\ninstead of a namespace; - is standard "+
			"input; may be repeated")
	p.StringVar(&f.rules.ExplicitPath, "kubeconfig", "",
		"kubeconfig `FILE` (default $KUBECONFIG, then ~/.kube/config, then the pod)")
	p.StringVar(&f.overrides.CurrentContext, "context", "", "`NAME` of the kubeconfig context")
	p.StringVarP(&f.overrides.Context.Namespace, "namespace", "n", "",
		"`NAMESPACE` with the VMs (default the namespace of the context)")
	p.StringVarP(&f.form, "output", "o", "text", "output `FORMAT`: text or json")
	p.BoolVar(&f.printConfig, "print-config", false, "print only the configuration for our manager, with its secrets")
	p.BoolVar(&f.apply, "apply", false, "hand VMs over to our manager")
	p.BoolVar(&f.undo, "undo", false, "hand VMs back to VM-Operator's manager")
	p.BoolVar(&f.stop, "stop", false, "with --apply or --undo, shut running guests down")
	p.DurationVar(&f.timeout, "timeout", 30*time.Minute,
		"with --stop, `DURATION` that each guest may take to shut down")
	cli.CompleteFile(cmd, "filename", "yaml", "yml", "json")
	return cmd
}

func (f *takeoverFlags) runTakeover(cmd *cobra.Command, vms []string) error {
	var all []unstructured.Unstructured
	var in *namespaceClient
	var err error
	if len(f.files) > 0 {
		all, err = readResources(f.files, cmd.InOrStdin())
	} else if in, err = f.connectNamespace(); err == nil {
		all, err = in.listObjects(cmd.Context())
	}
	if err != nil {
		return err
	}
	if f.undo {
		return in.handBack(cmd, all, vms, f.stop, f.timeout)
	}
	n, err := takeover.Sort(all)
	if err != nil {
		return err
	}
	settings, found := readConfiguration(n.Config)
	report := takeover.Assess(n, takeover.Options{
		Settings: settings.Settings, Config: found,
		Check: func(vm *v1.VirtualMachine, modules map[string]string) []takeover.Finding {
			return checkTypeOf(cmd, vm, modules)
		},
	})
	if !f.apply {
		if err := limitReport(report, vms); err != nil {
			return err
		}
	}
	switch {
	case f.printConfig:
		text, err := takeover.Convert(n.Config, report.TrustedClaims)
		fmt.Fprint(cmd.OutOrStdout(), text)
		return err
	case f.apply:
		return in.handOver(cmd, report, vms, f.stop, f.timeout)
	case f.form == "json":
		e := json.NewEncoder(cmd.OutOrStdout())
		e.SetIndent("", "  ")
		err = e.Encode(report)
	default:
		printReport(cmd.OutOrStdout(), report)
	}
	if err == nil && report.Blocked() {
		err = errors.New("not everything works without further ado: see what \"blocks\"")
	}
	return err
}

// limitReport keeps only the named VMs in a report, or everything if vms is empty.
func limitReport(r *takeover.Report, vms []string) error {
	if len(vms) == 0 {
		return nil
	}
	all := r.Subjects
	r.Subjects = nil
	for _, name := range vms {
		at := slices.IndexFunc(all, func(s takeover.Subject) bool {
			return s.Kind == "VirtualMachine" && s.Name == name
		})
		if at < 0 {
			return cli.UsageError{Err: fmt.Errorf("there is no VM %s", cli.Printable(name))}
		}
		r.Subjects = append(r.Subjects, all[at])
	}
	return nil
}

// readConfiguration returns a configuration and the findings about it.
func readConfiguration(text string) (c manager.Config, found []takeover.Finding) {
	c, warnings, err := manager.Parse(takeover.ConfigKey, []byte(text))
	var faults yamlfile.Faults
	switch {
	case errors.As(err, &faults):
		for _, fault := range faults {
			found = append(found, takeover.Finding{
				Effect: takeover.Blocks, Path: fault.Path, Message: fault.Message, Hint: fault.Hint,
			})
		}
	case err != nil:
		found = append(found, takeover.Finding{Effect: takeover.Blocks, Message: err.Error()})
	}
	if err != nil {
		c = manager.Defaults()
	}
	for _, w := range warnings {
		found = append(found, takeover.Finding{
			Effect: takeover.Changes, Path: w.Path, Message: w.Message, Hint: w.Hint,
		})
	}
	for _, path := range c.Unused {
		found = append(found, takeover.Finding{
			Effect: takeover.Changes, Path: path,
			Message: "has no effect, but for deleteConnectionFile: viewers connect through the manager",
		})
	}
	if err == nil && text != "" {
		found = append(found, takeover.Finding{
			Effect: takeover.Kept, Message: "the configuration, with its users and roles",
		})
	}
	c.Settings.Image = cmp.Or(c.Settings.Image, os.Getenv(takeover.RunnerImageVariable), "vmop/runner:"+version)
	return c, found
}

// checkTypeOf returns the errors that the VM's type finds in a VM. It skips VM types in a registry, which are
// unavailable here, and types in a missing ConfigMap.
func checkTypeOf(cmd *cobra.Command, vm *v1.VirtualMachine, modules map[string]string) (found []takeover.Finding) {
	of := vm.Spec.VMType
	if of.Image != "" || modules == nil && of.ConfigMap != "" {
		return nil
	}
	faults, err := manager.Check(cmd.Context(), vm, modules)
	if err != nil {
		return []takeover.Finding{{Effect: takeover.Blocks, Message: err.Error()}}
	}
	for _, fault := range faults {
		found = append(found, takeover.Finding{
			Effect: takeover.Blocks, Path: fault.Path, Message: fault.Message,
		})
	}
	return found
}

// readResources reads YAML documents. A document with the section /Manager is the configuration of a manager.
func readResources(files []string, stdin io.Reader) (all []unstructured.Unstructured, err error) {
	for _, name := range files {
		var text []byte
		if name == "-" {
			text, err = io.ReadAll(io.LimitReader(stdin, largestInput))
		} else {
			text, err = readfile.ReadFile(name, largestInput)
		}
		if err != nil {
			return nil, cli.UsageError{Err: fmt.Errorf("read resources: %w", err)}
		}
		for document := range strings.SplitSeq("\n"+string(text), "\n---") {
			var content map[string]any
			if err := yaml.Unmarshal([]byte(document), &content); err != nil {
				return nil, cli.UsageError{Err: fmt.Errorf("read %s: %w", name, err)}
			}
			all = append(all, resourcesOf(content, document)...)
		}
	}
	return all, nil
}

// resourcesOf returns the resources in a document.
func resourcesOf(content map[string]any, text string) (all []unstructured.Unstructured) {
	u := unstructured.Unstructured{Object: content}
	items, _ := content["items"].([]any)
	switch {
	case len(items) > 0:
		for _, item := range items {
			if object, is := item.(map[string]any); is {
				all = append(all, unstructured.Unstructured{Object: object})
			}
		}
		return all
	case u.GetKind() != "":
		return append(all, u)
	case slices.ContainsFunc(slices.Collect(maps.Keys(content)), func(key string) bool {
		return strings.HasPrefix(key, "/Manager") || strings.HasPrefix(key, "_Manager")
	}):
		return append(all, unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": takeover.ManagerName},
			"data": map[string]any{takeover.ConfigKey: text},
		}})
	}
	return nil
}

// largestInput is the maximum number of bytes read from a file.
const largestInput = 64 << 20

func printReport(out io.Writer, r *takeover.Report) {
	counts := map[takeover.Effect]int{}
	for _, s := range r.Subjects {
		fmt.Fprintf(out, "%s %s\n", s.Kind, cli.Printable(s.Name))
		counts[s.Worst()]++
		for _, f := range s.Findings {
			path := ""
			if f.Path != "" {
				path = f.Path + ": "
			}
			fmt.Fprintf(out, "  %-8s %s\n", f.Effect, cli.Printable(path+f.Message))
			if f.Hint != "" {
				fmt.Fprintf(out, "           -> %s\n", cli.Printable(f.Hint))
			}
		}
	}
	fmt.Fprintf(out, "%d stay as they are, %d change, %d are blocked\n",
		counts[takeover.Kept], counts[takeover.Changes], counts[takeover.Blocks])
}
