package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	v1 "vmop/api/v1"
	"vmop/internal/cli"
	"vmop/internal/readfile"
	"vmop/internal/yamlfile"
	"vmop/manager/vm/decide"
	"vmop/manager/vm/objects"
	"vmop/runner/control"
	"vmop/runner/status/k8s"
)

// differences are the changes from a VM to another definition, by the time when they would take effect.
type differences struct {
	Now   []k8s.Change `json:"now"`
	Later []k8s.Change `json:"later"`
	// Start contains all changes if the VM isn't running.
	Start []k8s.Change `json:"start"`
}

func newDiff(f *flags) *cobra.Command {
	var form string
	cmd := &cobra.Command{
		Use: "diff FILE", Short: "Show what a definition would change", GroupID: groupLook,
		Long: "Compare the VirtualMachine in FILE, or standard input (-), with the VM in the cluster:\n" +
			"changes that take effect immediately, and changes that need a restart. The API server\n" +
			"checks the definition; nothing is changed. The exit code is 0 without differences, 1\n" +
			"with differences, and larger after an error.",
		Example: "  kubectl vmop diff web.yaml\n  kubectl get vm web -o yaml | sed s/2Gi/4Gi/ | kubectl vmop diff -",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return cli.UsageError{Err: errors.New("usage: kubectl vmop diff FILE")}
			}
			return nil
		},
	}
	cli.OutputFlag(cmd, &form, "text", "json", "yaml")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		c, err := f.connectTo(cmd)
		if err != nil {
			return err
		}
		wanted, err := readVM(cmd.InOrStdin(), args[0])
		if err != nil {
			return cli.UsageError{Err: err}
		}
		found, err := c.compareDefinition(cmd.Context(), wanted)
		if err == nil {
			err = printDifferences(cmd.OutOrStdout(), form, found)
		}
		switch {
		case err != nil && exitCode(err) == exitFailed:
			return cli.UsageError{Err: err} // exit code 1 would mean differences
		case err != nil:
			return err
		case len(found.Now)+len(found.Later)+len(found.Start) > 0:
			return cli.ExitError{Code: 1}
		}
		return nil
	}
	return cmd
}

// readVM reads the definition of a VM; - is standard input.
func readVM(in io.Reader, file string) (*v1.VirtualMachine, error) {
	var text []byte
	var err error
	if file == "-" {
		text, err = io.ReadAll(io.LimitReader(in, yamlfile.LargestFile))
	} else {
		text, err = readfile.ReadFile(file, yamlfile.LargestFile)
	}
	if err != nil {
		return nil, fmt.Errorf("read the definition: %w", err)
	}
	var object map[string]any
	if err := yaml.UnmarshalStrict(text, &object); err != nil {
		return nil, fmt.Errorf("read %s: %w", file, err)
	}
	var vm v1.VirtualMachine
	if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(object, &vm, true); err != nil {
		return nil, fmt.Errorf("read %s: %w", file, explainFields(err))
	}
	if vm.Kind != "VirtualMachine" || vm.Name == "" {
		return nil, fmt.Errorf("read %s: the file must be a VirtualMachine with a name", file)
	}
	return &vm, nil
}

// explainFields adds questions to an error about unknown fields.
func explainFields(err error) error {
	var all []error
	paths, hints := decide.UnknownFields(err)
	for i, path := range paths {
		all = append(all, errors.New(strings.TrimSuffix(path+": there is no such field ("+hints[i]+")", " ()")))
	}
	return cmp.Or(errors.Join(all...), err)
}

// compareDefinition returns the changes that would result from replacing a VM's definition.
func (c *cluster) compareDefinition(ctx context.Context, wanted *v1.VirtualMachine) (d differences, err error) {
	if wanted.Namespace != "" && wanted.Namespace != c.namespace {
		return d, cli.UsageError{Err: fmt.Errorf("the file is about another namespace: use -n %s", wanted.Namespace)}
	}
	vm, err := c.getVM(ctx, wanted.Name)
	if err != nil {
		return d, err
	}
	next := vm.DeepCopy()
	next.Spec = wanted.Spec
	try := metav1.UpdateOptions{DryRun: []string{metav1.DryRunAll}, FieldManager: fieldManager}
	next, err = c.vms.Update(ctx, next, try)
	if err != nil {
		return d, err
	}
	all, err := specChanges(vm, next)
	if err != nil || len(all) == 0 {
		return d, err
	}
	p, err := podOf(vm)
	if err != nil {
		return differences{Start: all}, nil
	}
	expected, err := c.askForecast(ctx, p.Name, next)
	if err != nil {
		return d, err
	}
	return sortOut(all, expected), nil
}

// askForecast asks the runner of a VM for the effects of another definition.
func (c *cluster) askForecast(
	ctx context.Context, pod string, next *v1.VirtualMachine,
) (f control.Forecast, err error) {
	config, err := objects.Config(next, objects.Given{})
	if err != nil {
		return f, err
	}
	var out bytes.Buffer
	command := []string{"vmrunner", "diff", "--runtime-dir", runtimeDir(next.Name), "-", "-o", "json"}
	err = c.execInPod(ctx, pod, command, bytes.NewReader(config), &out)
	if out.Len() == 0 && err != nil {
		return f, fmt.Errorf("ask the runner what it would do: %w", err)
	}
	if err := json.Unmarshal(out.Bytes(), &f); err != nil {
		return f, fmt.Errorf("read what the runner would do: %w", err)
	}
	return f, nil
}

// sortOut assigns to each change the time when it takes effect. A change takes effect on restart if the runner
// reports so, or if it affects the pod.
func sortOut(all []k8s.Change, by control.Forecast) (d differences) {
	d.Later = k8s.Pending(by.Later)
	isLater := k8s.Awaiting(by.Later)
	for _, change := range all {
		switch {
		case isLater(change.Path):
		case objects.NeedsPod(change.Path):
			d.Later = append(d.Later, change)
		default:
			d.Now = append(d.Now, change)
		}
	}
	return d
}

// specChanges returns the differences between the definitions of two VMs, value by value.
func specChanges(before, after *v1.VirtualMachine) ([]k8s.Change, error) {
	values := make([]any, 2)
	for i, vm := range []*v1.VirtualMachine{before, after} {
		text, err := json.Marshal(vm.Spec)
		if err == nil {
			err = json.Unmarshal(text, &values[i])
		}
		if err != nil {
			return nil, fmt.Errorf("compare definitions: %w", err)
		}
	}
	var all []k8s.Change
	collectChanges(&all, "", values[0], values[1])
	return all, nil
}

// collectChanges appends the differences between two values.
func collectChanges(all *[]k8s.Change, path string, before, after any) {
	a, isMap := before.(map[string]any)
	b, both := after.(map[string]any)
	if isMap && both {
		keys := maps.Clone(a)
		maps.Copy(keys, b)
		for _, key := range slices.Sorted(maps.Keys(keys)) {
			collectChanges(all, strings.TrimPrefix(path+"."+key, "."), a[key], b[key])
		}
		return
	}
	x, isList := before.([]any)
	y, both := after.([]any)
	if isList && both {
		for i := range max(len(x), len(y)) {
			collectChanges(all, fmt.Sprintf("%s[%d]", path, i), itemAt(x, i), itemAt(y, i))
		}
		return
	}
	if reflect.DeepEqual(before, after) {
		return
	}
	change := k8s.Change{Path: path, Operation: "replace", CurrentValue: before, DesiredValue: after}
	switch {
	case before == nil:
		change.Operation = "add"
	case after == nil:
		change.Operation = "remove"
	}
	*all = append(*all, change)
}

func itemAt(list []any, i int) any {
	if i < len(list) {
		return list[i]
	}
	return nil
}

// fromTo formats the values of a change for people.
func fromTo(current, desired any) string { return inWords(current) + " -> " + inWords(desired) }

func inWords(value any) string {
	switch v := value.(type) {
	case nil:
		return "-"
	case string:
		return v
	}
	text, err := json.Marshal(value)
	if err != nil {
		return fmt.Sprint(value)
	}
	return string(text)
}

func printDifferences(w io.Writer, form string, d differences) error {
	if form != "text" {
		return cli.PrintValue(w, form, d)
	}
	for _, part := range []struct {
		title string
		list  []k8s.Change
	}{{"Takes effect immediately", d.Now}, {"Needs a restart", d.Later}, {"Takes effect at the next start", d.Start}} {
		if len(part.list) == 0 {
			continue
		}
		fmt.Fprintln(w, part.title+":")
		rows := make([][]string, len(part.list))
		for i, c := range part.list {
			rows[i] = []string{"  " + c.Operation, c.Path, fromTo(c.CurrentValue, c.DesiredValue)}
		}
		if err := cli.Table(w, rows); err != nil {
			return err
		}
	}
	return nil
}
