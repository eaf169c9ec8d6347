package main

import (
	"bytes"
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
	"sigs.k8s.io/yaml"

	v1 "vmop/api/v1"
	"vmop/cli"
	"vmop/manager/objects"
	"vmop/regular"
	"vmop/runner/status"
	"vmop/runner/status/k8s"
	"vmop/yamlfile"
)

// differences of a VM and another definition of it, by when they would take effect.
type differences struct {
	Now   []k8s.Change `json:"now"`
	Later []k8s.Change `json:"later"`
	// Start are all, if the VM isn't running.
	Start []k8s.Change `json:"start"`
}

func newDiff(f *flags) *cobra.Command {
	var form string
	cmd := &cobra.Command{
		Use: "diff FILE", Short: "Say what a definition would change, and whether that needs a restart", GroupID: groupLook,
		Long: "diff compares the VirtualMachine in FILE, - is standard input, with the one of the cluster, as if it\n" +
			"replaced it: what a running VM would take over at once, and what would await a restart. The API\n" +
			"server checks the definition; nothing is changed. The exit code is 0 if nothing differs, 1 if\n" +
			"something does, larger after an error.",
		Example: "  kubectl vmop diff web.yaml\n  kubectl get vm web -o yaml | sed s/2Gi/4Gi/ | kubectl vmop diff -",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return cli.UsageError{Err: errors.New("want: kubectl vmop diff FILE")}
			}
			return nil
		},
	}
	cli.OutputFlag(cmd, &form, "text", "json", "yaml")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		c, err := f.connect(cmd)
		if err != nil {
			return err
		}
		wanted, err := readVM(cmd.InOrStdin(), args[0])
		if err != nil {
			return cli.UsageError{Err: err}
		}
		found, err := c.compare(cmd.Context(), wanted)
		if err == nil {
			err = printDifferences(cmd.OutOrStdout(), form, found)
		}
		switch {
		case err != nil && exitCode(err) == exitFailed:
			cmd.PrintErrln("kubectl-vmop:", describe(err))
			return cli.ExitError{Code: cli.ExitUsage} // 1 would mean that there are differences
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
		text, err = regular.ReadFile(file, yamlfile.LargestFile)
	}
	if err != nil {
		return nil, fmt.Errorf("read the definition: %w", err)
	}
	var vm v1.VirtualMachine
	if err := yaml.UnmarshalStrict(text, &vm); err != nil {
		return nil, fmt.Errorf("read %s: %w", file, err)
	}
	if vm.Kind != "VirtualMachine" || vm.Name == "" {
		return nil, fmt.Errorf("read %s: want a VirtualMachine with a name", file)
	}
	return &vm, nil
}

// compare returns what would change if a VM's definition were replaced.
func (c *cluster) compare(ctx context.Context, wanted *v1.VirtualMachine) (d differences, err error) {
	if wanted.Namespace != "" && wanted.Namespace != c.namespace {
		return d, cli.UsageError{Err: fmt.Errorf("the file is about another namespace: use -n %s", wanted.Namespace)}
	}
	vm, err := c.vm(ctx, wanted.Name)
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
	expected, err := c.forecast(ctx, p.Name, next)
	if err != nil {
		return d, err
	}
	return sortOut(all, expected), nil
}

// forecast is what vmrunner diff prints.
type forecast struct{ Now, Later []status.Change }

// forecast asks the runner of a VM what it would do with another definition.
func (c *cluster) forecast(ctx context.Context, pod string, next *v1.VirtualMachine) (f forecast, err error) {
	config, err := objects.Config(next, objects.Given{})
	if err != nil {
		return f, err
	}
	var out bytes.Buffer
	command := []string{"vmrunner", "diff", "--runtime-dir", runtimeDir(next.Name), "-", "-o", "json"}
	err = c.exec(ctx, pod, command, bytes.NewReader(config), &out)
	if out.Len() == 0 && err != nil {
		return f, fmt.Errorf("ask the runner what it would do: %w", err)
	}
	if err := json.Unmarshal(out.Bytes(), &f); err != nil {
		return f, fmt.Errorf("read what the runner would do: %w", err)
	}
	return f, nil
}

// sortOut says of each change when it takes effect: what the runner says, and what a pod is made
// of, awaits a restart.
func sortOut(all []k8s.Change, by forecast) (d differences) {
	d.Later = k8s.Pending(by.Later)
	under := func(path string) bool {
		return slices.ContainsFunc(d.Later, func(l k8s.Change) bool {
			return path == l.Path || strings.HasPrefix(path, l.Path+".") || strings.HasPrefix(path, l.Path+"[") ||
				strings.HasPrefix(l.Path, path+".") || strings.HasPrefix(l.Path, path+"[")
		})
	}
	for _, change := range all {
		switch {
		case under(change.Path):
		case ofPod(change):
			d.Later = append(d.Later, change)
		default:
			d.Now = append(d.Now, change)
		}
	}
	return d
}

// ofPod reports whether a pod must be made anew for a change.
func ofPod(change k8s.Change) bool {
	for _, path := range []string{
		"image", "resources", "nodeSelector", "affinity", "tolerations", "topologySpreadConstraints",
	} {
		if change.Path == path || strings.HasPrefix(change.Path, path+".") || strings.HasPrefix(change.Path, path+"[") {
			return true
		}
	}
	if change.Path == "vm.powerdownTimeout" {
		return false // the running VM takes it over
	}
	return objects.OfPod(change.Path)
}

// specChanges returns in what the definitions of two VMs differ, value by value.
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
	collect(&all, "", values[0], values[1])
	return all, nil
}

// collect appends in what two values differ.
func collect(all *[]k8s.Change, path string, before, after any) {
	a, isMap := before.(map[string]any)
	b, both := after.(map[string]any)
	if isMap && both {
		keys := maps.Clone(a)
		maps.Copy(keys, b)
		for _, key := range slices.Sorted(maps.Keys(keys)) {
			collect(all, strings.TrimPrefix(path+"."+key, "."), a[key], b[key])
		}
		return
	}
	x, isList := before.([]any)
	y, both := after.([]any)
	if isList && both {
		for i := range max(len(x), len(y)) {
			collect(all, fmt.Sprintf("%s[%d]", path, i), at(x, i), at(y, i))
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

func at(list []any, i int) any {
	if i < len(list) {
		return list[i]
	}
	return nil
}

// fromTo is a change's values as people read them.
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
	}{{"Takes effect at once", d.Now}, {"Awaits a restart", d.Later}, {"Takes effect at the next start", d.Start}} {
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
