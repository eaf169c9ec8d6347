package web

import (
	"net/http"

	"vmop/manager/access"
	"vmop/manager/web/fleet"
)

// autostartView shows whether a VM starts without a request, with a switch.
type autostartView struct {
	words
	Name, Refused string
	// Shown reports that this VM can start automatically.
	Shown, On, AtBoot bool
}

func (v visit) autostartOf(vm *fleet.VM) autostartView {
	view := autostartView{words: v.words, Name: vm.Name, Refused: v.whyRefused(access.Edit, vm)}
	if vm.Autostart != nil && v.s.opts.Fleet.Autostarts() != nil {
		view.Shown, view.On, view.AtBoot = true, vm.Autostart.On, vm.Autostart.AtBoot
	}
	return view
}

// setAutostart switches the automatic start of a VM on or off.
func (s *Server) setAutostart(v visit, vm *fleet.VM, on bool) error {
	all := s.opts.Fleet.Autostarts()
	if all == nil || vm.Autostart == nil {
		return fleet.Refusal(v.T("autostart.none"))
	}
	return all.SetAutostart(v.ctx, v.who.User, vm.Name, on)
}

func (s *Server) postAutostart(w http.ResponseWriter, r *http.Request) error {
	v, vm, err := s.postedVM(w, r, access.Edit)
	if err != nil {
		return err
	}
	return s.finishAction(w, r, vm, "autostart", s.setAutostart(v, vm, r.PostForm.Get("on") == "true"))
}

// apiAutostart switches the automatic start of a VM on or off.
func (s *Server) apiAutostart(w http.ResponseWriter, r *http.Request) error {
	v := s.visitOf(r)
	vm, err := v.requestedVM(r, access.Edit)
	if err != nil {
		return err
	}
	var wanted struct {
		On bool `json:"on"`
	}
	if err := bodyJSON(w, r, &wanted); err != nil {
		return err
	}
	return s.carryOutAPI(w, r, vm, "autostart", func() error { return s.setAutostart(v, vm, wanted.On) })
}
