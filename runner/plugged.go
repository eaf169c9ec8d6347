package runner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"vmop/printable"
	"vmop/qmp"
	"vmop/runner/control"
	"vmop/runner/drive"
	"vmop/runner/reconcile"
	"vmop/vmtypes/plan"
)

// A plug is a disk that a guest had attached while it ran, and the place where it must find it after a move.
//
// See docs/decisions/0144-attached-disks-move.md.
type plug struct {
	reconcile.Drive

	place int
}

// slots returns where the disks are that were attached to the guest while it ran. It is a control.Refusal if that can't
// be made again at a target.
func (m *run) slots(ctx context.Context, want []reconcile.Drive) (slots []reconcile.Slot, err error) {
	var devices []struct {
		Device, QDev string
		Inserted     *struct {
			Node string `json:"node-name"`
		}
	}
	if err := m.driver.Query(ctx, qmp.Command{Execute: "query-block"}, &devices); err != nil {
		return nil, err
	}
	for _, d := range devices {
		id, _, _ := strings.Cut(strings.TrimPrefix(d.QDev, "/machine/peripheral/"), "/")
		if d.Inserted == nil || d.QDev == "" {
			continue
		}
		if _, known := m.vm.Plan.Drive(d.Device, d.QDev, id, d.Inserted.Node); known {
			continue
		}
		s, err := reconcile.SlotOf(id, want)
		if err != nil {
			return nil, control.Refusal(err.Error())
		}
		slots = append(slots, s)
	}
	slices.SortFunc(slots, func(a, b reconcile.Slot) int { return a.Place - b.Place })
	return slots, nil
}

// hasStill returns an error if the guest, which is paused for the switch, has released a disk that was offered: the
// target's QEMU has it.
func (m *run) hasStill(ctx context.Context, offered []reconcile.Slot, want []reconcile.Drive) error {
	now, err := m.slots(ctx, want)
	if err == nil && !slices.Equal(now, offered) {
		err = errors.New("the guest has released a disk meanwhile that was attached while it ran")
	}
	return err
}

// pluggedHardware is what a guest sees of its disks that were attached while it ran, as handover.Hardware has it of a
// plan.
func pluggedHardware(p *plan.Plan, slots []reconcile.Slot) (lines []string) {
	rule, _ := p.Rules.Disks()
	for _, s := range slots {
		if s.Place < 0 || s.Place >= len(rule.Buses) {
			continue
		}
		lines = append(lines, fmt.Sprintf("the disk %s that was attached while it ran (%s in %s, readOnly: %t)",
			printable.Line(s.Serial), rule.Driver, rule.Buses[s.Place], s.ReadOnly))
	}
	return lines
}

// pluggedID is how both sides know the copy of such a disk: the id of its device is each side's own.
func pluggedID(serial string) string { return "attached-" + serial }

// plugsOf returns the disks in slots, as they are wanted. Of one that isn't wanted there is none.
func plugsOf(slots []reconcile.Slot, want []reconcile.Drive) (plugs []plug) {
	for _, s := range slots {
		for _, d := range want {
			if d.Serial == s.Serial && d.ReadOnly == s.ReadOnly {
				plugs = append(plugs, plug{d, s.Place})
			}
		}
	}
	return plugs
}

// findPlugs finds the disks in the configuration that the guest had attached while it ran. The machine is started
// without them.
func (r *receiver) findPlugs(slots []reconcile.Slot) (err error) {
	r.wanted = r.vm
	if len(slots) == 0 {
		return nil
	}
	if r.wanted, err = r.vm.Renewed(r.vm.Config); err != nil {
		return err
	}
	r.plugs = plugsOf(slots, r.wanted.Desired(r.vm).Drives)
	for _, s := range slots {
		rule, _ := r.vm.Plan.Rules.Disks()
		if s.Place < 0 || s.Place >= len(rule.Buses) ||
			!slices.ContainsFunc(r.plugs, func(p plug) bool { return p.Serial == s.Serial }) {
			return fmt.Errorf("the guest has a disk with the serial number %s, which was attached while it ran, and vm.drives has "+
				"none here that is like it", printable.Line(s.Serial))
		}
	}
	for _, p := range r.plugs {
		err := error(nil)
		if p.Denied != "" {
			err = errors.New(p.Denied)
		} else if p.File != "" && p.ReadOnly {
			_, err = os.Stat(p.File)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", p.Path(), err)
		}
	}
	return nil
}

// plugIn attaches the disks that the guest had attached while it ran, in the same places. QEMU, which waits for the
// guest, neither locks nor writes to them before the guest is resumed here.
func (r *receiver) plugIn(ctx context.Context) error {
	rule, _ := r.vm.Plan.Rules.Disks()
	for _, p := range r.plugs {
		if err := r.attach(ctx, rule, p); err != nil {
			return fmt.Errorf("attach the disk %s, as it was attached while the guest ran: %w", p.Serial, err)
		}
	}
	return nil
}

func (r *receiver) attach(ctx context.Context, rule plan.Disks, p plug) error {
	file, err := drive.OpenDisk(ctx, p.Drive.Drive, r.log)
	if err != nil {
		return err
	}
	if file != nil {
		defer file.Close() // QEMU has its own
	}
	a := reconcile.AttachmentOf(rule, p.Drive, p.place, file)
	for _, c := range a.Do {
		var reply json.RawMessage
		if err := r.driver.Query(ctx, c, &reply); err != nil {
			return err
		}
	}
	for _, c := range a.After {
		_, _ = r.driver.Command(ctx, c) // QEMU has a copy of the descriptor
	}
	return nil
}
