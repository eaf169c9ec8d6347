package runner

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"vmop/internal/printable"
	"vmop/qmp"
	"vmop/runner/control"
	"vmop/runner/machine/drive"
	"vmop/runner/machine/reconcile"
	"vmop/vmtypes/plan"
)

// A plug is a disk or CD drive that was attached while the guest ran, with the slot where the guest must find it
// after a move.
//
// See docs/decisions/0144-attached-disks-move.md.
type plug struct {
	reconcile.Drive

	slot reconcile.Slot
}

// pluggedSlots returns the slots of the disks attached while the guest ran. It returns a control.Refusal if a target
// could not recreate a slot.
func (m *run) pluggedSlots(ctx context.Context, want []reconcile.Drive) (slots []reconcile.Slot, err error) {
	rule, _ := m.vm.Plan.Rules.Disks()
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
		if reconcile.IsCD(id) {
			question, read := reconcile.AddressOfCD(rule, id)
			var answer json.RawMessage
			if err := m.driver.Query(ctx, question, &answer); err != nil {
				return nil, fmt.Errorf("ask where the CD drive %s is: %w", s.Serial, err)
			}
			if s.CD = read(answer); s.CD == "" {
				return nil, control.Refusal("QEMU does not report where its CD drive " + s.Serial + " is")
			}
		}
		slots = append(slots, s)
	}
	slices.SortFunc(slots, func(a, b reconcile.Slot) int {
		return cmp.Or(a.Place-b.Place, cmp.Compare(a.Serial, b.Serial))
	})
	return slots, nil
}

// hasStill returns an error if the guest, which is paused for the switch, has released a disk that was offered.
// The target's QEMU still has that disk.
func (m *run) hasStill(ctx context.Context, offered []reconcile.Slot, want []reconcile.Drive) error {
	now, err := m.pluggedSlots(ctx, want)
	if err == nil && !slices.Equal(now, offered) {
		err = errors.New("the guest has released a disk meanwhile that was attached while it ran")
	}
	return err
}

// pluggedHardware describes the disks attached while the guest ran, in the format of handover.Hardware.
func pluggedHardware(p *plan.Plan, slots []reconcile.Slot) (lines []string) {
	rule, _ := p.Rules.Disks()
	for _, s := range slots {
		bus, driver, there := s.Bus(rule)
		if !there {
			continue
		}
		lines = append(lines, fmt.Sprintf("the %s %s that was attached while it ran (%s in %s, readOnly: %t)", s.Noun(),
			printable.Line(s.Serial), driver, bus, s.ReadOnly))
	}
	return lines
}

// pluggedID returns the ID under which both sides copy an attached disk. Device IDs differ between the sides.
func pluggedID(serial string) string { return "attached-" + serial }

// plugsOf returns the wanted disks in slots. It skips slots without a wanted disk.
func plugsOf(slots []reconcile.Slot, want []reconcile.Drive) (plugs []plug) {
	for _, s := range slots {
		for _, d := range want {
			if s.Is(d) {
				plugs = append(plugs, plug{d, s})
			}
		}
	}
	return plugs
}

// findPlugs finds the configured disks that the source attached while the guest ran. The machine starts without
// them.
func (r *receiver) findPlugs(ctx context.Context, slots []reconcile.Slot) (err error) {
	r.wanted = r.vm
	if len(slots) == 0 {
		return nil
	}
	if r.wanted, err = r.vm.Renewed(ctx, r.vm.Config); err != nil {
		return err
	}
	r.plugs = plugsOf(slots, r.wanted.Desired(r.vm).Drives)
	rule, _ := r.vm.Plan.Rules.Disks()
	for _, s := range slots {
		_, _, there := s.Bus(rule)
		if !there || !slices.ContainsFunc(r.plugs, func(p plug) bool { return p.Serial == s.Serial }) {
			return fmt.Errorf("the guest has a %s with the serial number %s, which was attached while it ran, and vm.drives has "+
				"none here that is like it", s.Noun(), printable.Line(s.Serial))
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

// plugIn attaches the disks of findPlugs to the same slots. QEMU is still waiting for the guest, so it does not
// lock or write to them before the guest is resumed here.
func (r *receiver) plugIn(ctx context.Context) error {
	rule, _ := r.vm.Plan.Rules.Disks()
	for _, p := range r.plugs {
		if err := r.attachPlug(ctx, rule, p); err != nil {
			return fmt.Errorf("attach the %s %s, which the guest got while it ran: %w", p.slot.Noun(), p.Serial, err)
		}
	}
	return nil
}

func (r *receiver) attachPlug(ctx context.Context, rule plan.Disks, p plug) error {
	file, err := drive.OpenDisk(ctx, p.Drive.Drive, r.log)
	if err != nil {
		return err
	}
	if file != nil {
		defer file.Close() // QEMU has its own descriptor
	}
	a := reconcile.AttachmentOf(rule, p.Drive, p.slot, file)
	// QEMU chooses the speed of a USB device when it is plugged in, and the guest does not notice if a device
	// with another speed disappears.
	for _, c := range slices.Concat(a.Do, a.Plug) {
		var reply json.RawMessage
		if err := r.driver.Query(ctx, c, &reply); err != nil {
			return err
		}
	}
	for _, c := range a.After {
		_, _ = r.driver.Command(ctx, c) // closes the descriptor in QEMU, which has a copy
	}
	return nil
}
