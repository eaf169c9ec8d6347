package web

import (
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"vmop/manager/access"
	"vmop/manager/web/fleet"
	"vmop/vmtypes/plan"
)

// planView is the page with the arguments of QEMU and their origins.
type planView struct {
	vmFrame
	Name, Lead string       // Lead is a key
	Devices    *devicesView // nil without a machine
	Lines      []planLine
}

// A planLine is an argument with its origins.
type planLine struct {
	Depth   int
	Text    string
	Origins []originView
}

// An originView is a place in a module. Href links to its source; "" if there is none.
type originView struct{ Text, Href string }

func (s *Server) getPlan(w http.ResponseWriter, r *http.Request) error {
	v := s.visitOf(r)
	vm, err := v.requestedVM(r, access.Edit)
	if err != nil {
		return err
	}
	lines, err := s.opts.Fleet.Plan(r.Context(), vm.Name)
	if err != nil {
		return err
	}
	view := planView{vmFrame: v.newVMFrame(vm, "why"), Name: vm.Name, Lead: "plan.lead.stopped"}
	view.Devices = v.newDevicesView(vm)
	if vm.State.Up() {
		view.Lead = "plan.lead"
	}
	for _, line := range lines {
		one := planLine{Depth: line.Depth, Text: line.Text}
		for _, text := range line.Origins {
			one.Origins = append(one.Origins, originOf(vm, text))
		}
		view.Lines = append(view.Lines, one)
	}
	return s.showPage(w, http.StatusOK, "plan", view)
}

// originOf parses an origin, "file:line function", and returns it with the address of its source.
func originOf(vm *fleet.VM, text string) originView {
	var at plan.Frame
	if at.UnmarshalText([]byte(text)) != nil {
		return originView{Text: text}
	}
	line := strconv.Itoa(at.Line)
	q := url.Values{"module": {at.File}, "line": {line}}
	return originView{text, "/vms/" + url.PathEscape(vm.Name) + "/source?" + q.Encode() + "#L" + line}
}

// sourceView is the page with a module of a VM type and a marked line.
type sourceView struct {
	frame
	Name, Module string
	Lines        []sourceLine
}

// A sourceLine is a line of the module. ID is the id of its element.
type sourceLine struct {
	ID, Text string
	Marked   bool
}

func (s *Server) getSource(w http.ResponseWriter, r *http.Request) error {
	v := s.visitOf(r)
	vm, err := v.requestedVM(r, access.Edit)
	if err != nil {
		return err
	}
	module, marked := r.URL.Query().Get("module"), r.URL.Query().Get("line")
	text, err := s.opts.Fleet.Source(r.Context(), vm.Name, module)
	if err != nil {
		return err
	}
	view := sourceView{frame: v.newFrame(module), Name: vm.Name, Module: module}
	for i, line := range strings.Split(strings.TrimSuffix(text, "\n"), "\n") {
		number := strconv.Itoa(i + 1)
		view.Lines = append(view.Lines, sourceLine{"L" + number, line, number == marked})
	}
	return s.showPage(w, http.StatusOK, "source", view)
}
