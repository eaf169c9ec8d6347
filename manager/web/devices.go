package web

import (
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"vmop/manager/access"
	"vmop/manager/web/fleet"
	"vmop/runner/hardware"
)

// devicesView is the table of the devices that the guest sees. The page with the plan loads it separately, because the
// runner and the guest must answer first.
type devicesView struct {
	words
	// Source is the address of the table for a script; "" if the table is loaded.
	Source string
	// Refused is why there is no table.
	Refused string
	// Usual reports that no agent has reported the names.
	Usual   bool
	Devices []deviceView
}

// A deviceView is a row, and the lines that a click shows.
type deviceView struct {
	hardware.Device
	Guest, PCI string
	Lines      []planLine
}

// newDevicesView returns the view of a VM before the devices are loaded; nil without a machine.
func (v visit) newDevicesView(vm *fleet.VM) *devicesView {
	if !vm.State.Up() {
		return nil
	}
	return &devicesView{words: v.words, Source: "/vms/" + url.PathEscape(vm.Name) + "/devices"}
}

// getDevices answers with this part of the page only.
func (s *Server) getDevices(w http.ResponseWriter, r *http.Request) error {
	v := s.visitOf(r)
	vm, err := v.requestedVM(r, access.Edit)
	if err != nil {
		return err
	}
	view := devicesView{words: v.words}
	report, err := s.opts.Fleet.Devices(r.Context(), vm.Name)
	var refusal fleet.Refusal
	switch {
	case errors.As(err, &refusal):
		view.Refused, report = string(refusal), hardware.Report{}
	case err != nil:
		return err
	}
	view.Usual = err == nil && !report.Agent
	for _, d := range report.Devices {
		names := strings.Join(slices.Concat(d.Names, d.Mounts), ", ")
		row := deviceView{Device: d, Guest: names, PCI: hardware.ShortPCI(d.PCI)}
		for _, line := range d.Lines {
			row.Lines = append(row.Lines, planLine{Text: line.Text, Origins: originsIn(vm, line.Origin)})
		}
		view.Devices = append(view.Devices, row)
	}
	return s.showPage(w, http.StatusOK, "vmdevices", view)
}

// originsIn returns the places in the text of an origin. The first, which created the line, links to its source.
func originsIn(vm *fleet.VM, text string) []originView {
	if text == "" {
		return nil
	}
	end := len(text)
	for _, separator := range []string{" < ", ", "} {
		if at := strings.Index(text, separator); at >= 0 {
			end = min(end, at)
		}
	}
	list := []originView{originOf(vm, text[:end])}
	if rest := strings.TrimLeft(text[end:], ", "); rest != "" {
		list = append(list, originView{Text: rest})
	}
	return list
}
