package web

import (
	"net/http"
	"net/url"
	"strings"
	"time"

	"vmop/manager/access"
	"vmop/manager/web/fleet"
)

// snapshotsView shows the snapshots of a VM.
type snapshotsView struct {
	words
	Name, Refused string
	// Shown reports that this fleet has snapshots, and Named that a snapshot can have a name.
	Shown, Named bool
	// Restorable reports that this fleet can restore and delete snapshots. NotNow is why it can't restore them now.
	Restorable bool
	NotNow     string
	// Copies reports that a new VM can be created from a snapshot.
	Copies bool
	Rows   []snapshotView
}

type snapshotView struct {
	Name, Stored string
	State        stateView
	Why, Advice  string
	At           time.Time
	// Consistent is the word for whether all disks were captured at the same moment; "" while unknown.
	Consistent string
	// Clone is the address of the page that creates a VM from it.
	Clone string
}

func (v visit) snapshotsOf(vm *fleet.VM) snapshotsView {
	all := v.s.opts.Fleet.Snapshots()
	view := snapshotsView{
		words: v.words, Name: vm.Name, Refused: v.whyRefused(access.Edit, vm), Shown: all != nil,
		Named: all != nil && all.Named(), Restorable: v.s.opts.Fleet.Restores() != nil,
		Copies: v.s.opts.Fleet.Copies() != nil && v.mayCreate() == nil,
	}
	if vm.State != fleet.Stopped && vm.State != fleet.Failed {
		view.NotNow = v.T("snapshot.stopfirst")
	}
	for _, of := range vm.Snapshots {
		row := snapshotView{
			Name: of.Name, State: stateView{volumeClass(of.State), v.T("snapshot.state." + of.State)}, At: of.At,
			Clone: "/vms/" + url.PathEscape(vm.Name) + "/clone?snapshot=" + url.QueryEscape(of.Name),
		}
		if of.State != "Ready" || of.Reason == fleet.DisksOmitted {
			row.Why, row.Advice = of.Message, of.Advice
		}
		if of.Stored > 0 {
			row.Stored = v.formatBytes(of.Stored)
		}
		if of.Consistent != nil {
			row.Consistent = v.T("snapshot.torn")
			if *of.Consistent {
				row.Consistent = v.T("snapshot.consistent")
			}
		}
		view.Rows = append(view.Rows, row)
	}
	return view
}

func (s *Server) postSnapshot(w http.ResponseWriter, r *http.Request) error {
	v, vm, err := s.postedVM(w, r, access.Edit)
	if err != nil {
		return err
	}
	return s.finishAction(w, r, vm, "snapshot", s.createSnapshot(v, vm, r.PostForm.Get("name")))
}

// createSnapshot begins a snapshot of a VM.
func (s *Server) createSnapshot(v visit, vm *fleet.VM, name string) error {
	all := s.opts.Fleet.Snapshots()
	if all == nil {
		return errNoPage
	}
	_, err := all.Snapshot(v.ctx, v.who.User, vm.Name, strings.TrimSpace(name))
	return err
}

// postRestore restores a VM from a snapshot after a confirmation.
func (s *Server) postRestore(w http.ResponseWriter, r *http.Request) error {
	v, vm, err := s.postedVM(w, r, access.Edit)
	if err != nil {
		return err
	}
	name := r.PostForm.Get("snapshot")
	if !fromScript(r) && r.PostForm.Get("sure") == "" {
		return s.askConfirmation(w, r, v.T("snapshot.restore"), v.T("ask.restore", vm.Name, name))
	}
	err = s.restoreSnapshot(v, vm, name, r.PostForm.Get("definition") != "")
	return s.finishAction(w, r, vm, "restore", err)
}

// restoreSnapshot restores a VM from a snapshot.
func (s *Server) restoreSnapshot(v visit, vm *fleet.VM, name string, definition bool) error {
	all := s.opts.Fleet.Restores()
	if all == nil {
		return fleet.Refusal(v.T("snapshot.norestore"))
	}
	return all.Restore(v.ctx, v.who.User, vm.Name, name, definition)
}

// postSnapshotDelete deletes a snapshot of a VM after a confirmation.
func (s *Server) postSnapshotDelete(w http.ResponseWriter, r *http.Request) error {
	v, vm, err := s.postedVM(w, r, access.Edit)
	if err != nil {
		return err
	}
	name := r.PostForm.Get("snapshot")
	if !fromScript(r) && r.PostForm.Get("sure") == "" {
		return s.askConfirmation(w, r, v.T("do.delete"), v.T("ask.deletesnapshot", name))
	}
	return s.finishAction(w, r, vm, "delete a snapshot", s.deleteSnapshot(v, vm, name))
}

// deleteSnapshot deletes a snapshot of a VM.
func (s *Server) deleteSnapshot(v visit, vm *fleet.VM, name string) error {
	all := s.opts.Fleet.Restores()
	if all == nil {
		return fleet.Refusal(v.T("snapshot.norestore"))
	}
	return all.DeleteSnapshot(v.ctx, v.who.User, vm.Name, name)
}

// apiSnapshot begins a snapshot of a VM. The body, with the name, is optional.
func (s *Server) apiSnapshot(w http.ResponseWriter, r *http.Request) error {
	v := s.visitOf(r)
	vm, err := v.requestedVM(r, access.Edit)
	if err != nil {
		return err
	}
	var wanted struct {
		Name string `json:"name"`
	}
	if r.ContentLength != 0 {
		if err := bodyJSON(w, r, &wanted); err != nil {
			return err
		}
	}
	return s.carryOutAPI(w, r, vm, "snapshot", func() error { return s.createSnapshot(v, vm, wanted.Name) })
}

// apiRestore restores a VM from a snapshot.
func (s *Server) apiRestore(w http.ResponseWriter, r *http.Request) error {
	v := s.visitOf(r)
	vm, err := v.requestedVM(r, access.Edit)
	if err != nil {
		return err
	}
	definition, err := booleanParameter(r, "definition")
	if err != nil {
		return err
	}
	return s.carryOutAPI(w, r, vm, "restore", func() error {
		return s.restoreSnapshot(v, vm, r.PathValue("snapshot"), definition)
	})
}

// apiSnapshotDelete deletes a snapshot of a VM.
func (s *Server) apiSnapshotDelete(w http.ResponseWriter, r *http.Request) error {
	v := s.visitOf(r)
	vm, err := v.requestedVM(r, access.Edit)
	if err != nil {
		return err
	}
	return s.carryOutAPI(w, r, vm, "delete a snapshot", func() error {
		return s.deleteSnapshot(v, vm, r.PathValue("snapshot"))
	})
}
