package runner

import (
	"context"
	"encoding/json"
	"errors"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"vmop/qmp"
	"vmop/runner/config"
	"vmop/runner/hardware"
	"vmop/runner/machine/reconcile"
	"vmop/vmtypes/plan"
)

// guestAnswerTime is the time for the guest agent to report its disks. A guest may never answer.
const guestAnswerTime = 5 * time.Second

// guestDevices returns the devices of the machine with their names in the guest. Without the guest agent, names are
// those that Linux usually gives.
func (m *run) guestDevices(ctx context.Context) (hardware.Report, error) {
	if !m.there.Load() {
		return hardware.Report{}, errNotThere
	}
	in := hardware.Input{Plan: m.vm.Plan, Place: m.placeOfField}
	for _, n := range m.vm.Spec.Network {
		in.MACs = append(in.MACs, n.MAC)
	}
	var answer json.RawMessage
	err := m.driver.Query(ctx, hardware.PCIQuestion(), &answer)
	if err != nil && !errors.As(err, new(*qmp.Error)) { // a machine without PCI refuses
		return hardware.Report{}, err
	}
	if err == nil {
		if in.PCI, err = hardware.ParsePCI(answer); err != nil {
			return hardware.Report{}, err
		}
	}
	if in.Attached, err = m.attachedDevices(ctx); err != nil {
		return hardware.Report{}, err
	}
	cards, err := m.attachedCards(ctx)
	if err != nil {
		return hardware.Report{}, err
	}
	in.Attached = append(in.Attached, cards...)
	in.Guest = m.askGuest(ctx)
	return hardware.New(in), nil
}

// attachedDevices returns the disks attached while the guest was running.
func (m *run) attachedDevices(ctx context.Context) (list []hardware.Attachment, err error) {
	var devices []struct{ QDev string }
	if err := m.driver.Query(ctx, qmp.Command{Execute: "query-block"}, &devices); err != nil {
		return nil, err
	}
	want := m.driver.Wanted()
	for _, d := range devices {
		id, _, _ := strings.Cut(strings.TrimPrefix(d.QDev, "/machine/peripheral/"), "/")
		serial, attached := reconcile.SerialOf(id)
		if !attached {
			continue
		}
		a := hardware.Attachment{ID: id, Serial: serial, Index: plan.NotInConfiguration, CD: reconcile.IsCD(id)}
		if i := slices.IndexFunc(want, func(w reconcile.Drive) bool { return w.Serial == serial }); i >= 0 {
			a.Index = want[i].Index
		}
		list = append(list, a)
	}
	return list, nil
}

// attachedCards returns the network cards that were plugged in while the guest was running.
func (m *run) attachedCards(ctx context.Context) (list []hardware.Attachment, err error) {
	devices, err := m.listPeripherals(ctx)
	if err != nil {
		return nil, err
	}
	want := m.driver.WantedCards()
	for _, d := range devices {
		mac, _, plugged := reconcile.CardOf(d.Name)
		if !plugged {
			continue
		}
		a := hardware.Attachment{ID: d.Name, MAC: mac, Driver: d.driver(), Index: plan.NotInConfiguration}
		if i := slices.IndexFunc(want, func(c reconcile.Card) bool { return c.MAC == mac }); i >= 0 {
			a.Index = want[i].Index
		}
		list = append(list, a)
	}
	return list, nil
}

// askGuest returns what the guest agent reports about devices, nil without an answer.
func (m *run) askGuest(ctx context.Context) *hardware.Guest {
	limited, cancel := context.WithTimeout(ctx, guestAnswerTime)
	defer cancel()
	disks, mounted, err := m.agents.Disks(limited)
	if err != nil {
		m.log.Debug("the guest agent does not report its disks", "err", err)
		return nil
	}
	var g hardware.Guest
	if known := m.tracker.Status().Guest; known != nil {
		for _, i := range known.Interfaces {
			g.Cards = append(g.Cards, hardware.Card{Name: i.Name, MAC: i.MAC})
		}
	}
	for _, d := range disks {
		if !d.Partition {
			g.Disks = append(g.Disks, hardware.Disk{
				Name: d.Name, PCI: d.PCI, Serial: d.Serial, Target: d.Target, Unit: d.Unit,
			})
		}
	}
	for _, f := range mounted {
		for _, a := range f.Disks {
			g.Mounts = append(g.Mounts, hardware.Mount{Point: f.Mount, Disk: hardware.Disk{
				Name: a.Device, PCI: a.PCI, Serial: a.Serial, Target: a.Target, Unit: a.Unit,
			}})
		}
	}
	return &g
}

// placeOfField returns FILE:LINE of a field of the configuration: the one of the start, or the current one for an
// attached disk.
func (m *run) placeOfField(field string, attached bool) string {
	cfg := m.vm.Config
	if attached {
		var err error
		if cfg, _, err = config.Load(m.vm.File); err != nil {
			return ""
		}
	}
	return filepath.Base(m.vm.File) + ":" + strconv.Itoa(cfg.Line(field))
}
