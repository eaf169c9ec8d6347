package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	v1 "vmop/api/v1"
	"vmop/internal/cli"
	"vmop/internal/cli/plans"
	"vmop/manager/vm/decide"
)

func newPlan(f *flags) *cobra.Command {
	var form string
	var why bool
	cmd := &cobra.Command{
		Use: "plan NAME", GroupID: groupLook,
		Short: "Print the launch plan of a running VM",
		Long: "Print the launch plan of a running VM. With --why each argument shows the line of the VM\n" +
			"type that created it, and the calls that led there.",
		Example: "  kubectl vmop plan web --why\n  kubectl vmop plan web -o argv",
	}
	f.oneVM(cmd)
	plans.AddFlags(cmd, &form, &why)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		g, err := f.findGuest(cmd, args, false)
		if err != nil {
			return err
		}
		if why && form == "text" {
			form = "why"
		}
		ctx, cancel := boundRequest(cmd.Context())
		defer cancel()
		return g.Plan(ctx, cmd.OutOrStdout(), form)
	}
	return cmd
}

func newWhy(f *flags) *cobra.Command {
	var form string
	var devices bool
	cmd := &cobra.Command{
		Use: "why NAME [DEVICE|WORD...]", GroupID: groupLook,
		Short: "Explain a VM's state, a device of the guest, or an argument of QEMU",
		Long: "Explain a VM's state: the reason in its status, conditions with problems, changes that\n" +
			"need a restart, and the latest warnings.\n\n" +
			"With DEVICE, explain where a device comes from that you see in the guest: its field in the\n" +
			"definition, QEMU's arguments, and the lines of the VM type that created them. DEVICE is a\n" +
			"disk (/dev/vdb), network interface (eth1, enp1s0), hardware address, PCI address as lspci\n" +
			"shows it (00:0f.0), serial number, mount point, or id in QEMU.\n\n" +
			"With other WORDs, print the arguments of QEMU and its helpers that contain all of them,\n" +
			"each with the line of the VM type that created it.",
		Example: "  kubectl vmop why web\n  kubectl vmop why web --devices\n  kubectl vmop why web /dev/vdb\n" +
			"  kubectl vmop why web cpu",
	}
	f.aVMAnd(cmd, 0, -1)
	cmd.Flags().BoolVar(&devices, "devices", false, "list the devices of the running VM with their names in the guest")
	cli.OutputFlag(cmd, &form, "text", "json")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		_, words := splitName(args)
		switch {
		case devices && len(words) > 0:
			return cli.UsageError{Err: errors.New("--devices lists all devices; omit DEVICE")}
		case form == "json" && !devices && len(words) != 1:
			return cli.UsageError{Err: errors.New("-o json: only with --devices or one DEVICE")}
		case devices || len(words) > 0:
			g, err := f.findGuest(cmd, args, false)
			if err != nil {
				return err
			}
			ctx, cancel := boundRequest(cmd.Context())
			defer cancel()
			return g.printOrigin(ctx, cmd.OutOrStdout(), words, form)
		}
		switch m, err := f.viaManager(cmd); {
		case err != nil:
			return err
		case m != nil:
			return m.printWhy(cmd, args)
		}
		c, vm, err := f.findVM(cmd, args)
		if err != nil {
			return err
		}
		subjects, err := c.eventSubjects(cmd.Context(), vm)
		if err != nil {
			return err
		}
		events, err := c.eventsOf(cmd.Context(), subjects)
		if err != nil {
			return err
		}
		return printWhy(cmd.OutOrStdout(), vm, events, time.Now())
	}
	return cmd
}

// printOrigin explains a device of the guest, or the arguments of QEMU that contain words; without words, it lists the
// devices.
func (g guest) printOrigin(ctx context.Context, w io.Writer, words []string, form string) error {
	var noDevice error
	if len(words) < 2 {
		report, err := g.Devices(ctx)
		if err == nil && len(words) > 0 {
			report.Devices, err = report.Find(words[0])
		}
		switch {
		case err == nil && form == "json":
			return cli.PrintValue(w, form, report)
		case err == nil && len(words) == 0:
			return plans.PrintDevices(w, report)
		case err == nil:
			return plans.PrintReasons(w, report)
		case len(words) == 0 || form == "json":
			return err
		}
		noDevice = err
	}
	var text bytes.Buffer
	if err := g.Plan(ctx, &text, "why"); err != nil {
		return err
	}
	err := printMatches(w, text.String(), words)
	if err != nil && len(words) == 1 {
		return fmt.Errorf("%w, and %w", err, noDevice)
	}
	return err
}

// printMatches prints the lines of a plan that contain all words, ignoring case.
func printMatches(w io.Writer, text string, words []string) error {
	found := false
	for line := range strings.Lines(text) {
		if slices.ContainsFunc(words, func(word string) bool {
			return !strings.Contains(strings.ToLower(line), strings.ToLower(word))
		}) {
			continue
		}
		found = true
		if err := cli.WriteLine(w, strings.TrimSpace(line)); err != nil {
			return err
		}
	}
	if !found {
		return fmt.Errorf("no argument contains %s", strings.Join(words, " and "))
	}
	return nil
}

// mostWarnings is the maximum number of warnings shown, the latest ones.
const mostWarnings = 5

// printWhy prints an explanation of a VM's state.
func printWhy(w io.Writer, vm *v1.VirtualMachine, events []corev1.Event, now time.Time) error {
	s := vm.Status
	state := fmt.Sprintf("%s is %s: %s: %s", vm.Name, s.Phase, s.Reason, s.Message)
	fmt.Fprintln(w, cli.Printable(strings.TrimSuffix(state, ": ")))
	if advice := decide.AdviceFor(s.Reason); advice != "" {
		fmt.Fprintln(w, "what to do:", advice)
	}
	fmt.Fprintf(w, "spec.vm.state is %s\n", vm.Spec.DesiredState())
	if vm.Spec.RunPolicy != "" {
		fmt.Fprintf(w, "spec.runPolicy is %s\n", vm.Spec.RunPolicy)
	}
	var conditions, pending, arguments, warnings [][]string
	for _, c := range s.Conditions {
		if isUnexpected(vm, c) {
			since := duration.HumanDuration(now.Sub(c.LastTransitionTime.Time))
			conditions = append(conditions, []string{"  " + c.Type, string(c.Status), c.Reason, since, c.Message})
		}
	}
	for _, c := range s.RestartAwaitingChanges {
		pending = append(pending, []string{"  " + c.Operation, c.Path, fromTo(c.Values())})
	}
	for _, a := range s.RestartAwaitingArguments {
		arguments = append(arguments, []string{"  " + a})
	}
	for _, e := range events {
		if e.Type == corev1.EventTypeWarning {
			row := eventRow(e, now)
			warnings = append(warnings, []string{"  " + row[0], row[2], row[3], row[4]})
		}
	}
	if f := s.Failures; f != nil {
		text := fmt.Sprintf("%d starts in a row have failed", f.Count)
		if f.Last != nil {
			text += ", the last: " + f.Last.Message
		}
		fmt.Fprintln(w, cli.Printable(text))
	}
	for _, section := range []struct {
		title string
		rows  [][]string
	}{
		{"Conditions", conditions},
		{"Needs a restart (kubectl vmop restart " + vm.Name + ")", pending},
		{"With that, QEMU's arguments", arguments},
		{"Warnings", warnings[max(0, len(warnings)-mostWarnings):]},
	} {
		if len(section.rows) == 0 {
			continue
		}
		fmt.Fprintf(w, "\n%s:\n", section.title)
		if err := cli.Table(w, section.rows); err != nil {
			return err
		}
	}
	return nil
}

// isUnexpected reports whether a condition indicates a problem. For a stopped VM, it ignores conditions that only
// apply to a running machine.
func isUnexpected(vm *v1.VirtualMachine, c metav1.Condition) bool {
	switch c.Type {
	case v1.ConditionRestartRequired, v1.ConditionTPMLost:
		return c.Status == metav1.ConditionTrue
	case v1.ConditionVMTypeAccepted, v1.ConditionReconciled, v1.ConditionConfigApplied:
		return c.Status == metav1.ConditionFalse
	case v1.ConditionReady, v1.ConditionRunning, v1.ConditionBooted:
		return c.Status != metav1.ConditionTrue && vm.Spec.DesiredState() == v1.Running
	}
	return false
}
