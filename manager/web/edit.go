package web

import (
	"errors"
	"net/http"

	"vmop/manager/access"
	"vmop/manager/web/fleet"
)

// editView is the page for editing a definition.
type editView struct {
	frame
	Name, File string
	// Text is based on version Edited.
	Text, Edited string
	Rows         int
	// Conflict reports that someone else has changed the definition to Theirs.
	Conflict bool
	Theirs   string
	// Checked reports that the following fields contain the result of a check.
	Checked  bool
	Problem  string
	Faults   []placeView
	Warnings []string
	Running  bool
	Changes  []changesView
	Lines    []fleet.Argument
}

// changesView lists changes that take effect at the same time.
type changesView struct {
	words
	Title string
	List  []fleet.Change
}

func (v visit) newEditView(vm *fleet.VM, d *fleet.Definition) editView {
	return editView{
		frame: v.newFrame(v.T("edit.title", vm.Name)), Name: vm.Name, File: vm.File, Text: d.Text, Edited: d.Version,
		Rows: rowsOf(d.Text),
	}
}

func (s *Server) getEdit(w http.ResponseWriter, r *http.Request) error {
	v := s.visitOf(r)
	vm, err := v.requestedVM(r, access.Edit)
	if err != nil {
		return err
	}
	d, err := s.opts.Fleet.Definition(r.Context(), vm.Name)
	if err != nil {
		return err
	}
	return s.showPage(w, http.StatusOK, "edit", v.newEditView(vm, d))
}

// postEdit checks a definition, and saves it on request.
func (s *Server) postEdit(w http.ResponseWriter, r *http.Request) error {
	v, vm, err := s.postedVM(w, r, access.Edit)
	if err != nil {
		return err
	}
	d := &fleet.Definition{Text: unixLines(r.PostForm.Get("definition")), Version: r.PostForm.Get("version")}
	if d.Version == "" {
		return errBadForm // it would mean a new VM
	}
	view := v.newEditView(vm, d)
	if r.PostForm.Get("do") == "save" {
		err := s.opts.Fleet.Replace(r.Context(), v.who.User, vm.Name, d)
		switch {
		case err == nil:
			return s.finishAction(w, r, vm, "edit", nil)
		case errors.Is(err, fleet.ErrChanged):
			now, err := s.opts.Fleet.Definition(r.Context(), vm.Name)
			if err != nil {
				return err
			}
			view.Conflict, view.Theirs, view.Edited = true, now.Text, now.Version
			return s.showPage(w, http.StatusConflict, "edit", view)
		}
		if err := view.noteRefusal(err); err != nil {
			s.recordAction(r, vm.Name, "edit", err)
			return err
		}
		return s.showPage(w, http.StatusUnprocessableEntity, "edit", view)
	}
	check, err := s.opts.Fleet.Check(r.Context(), vm.Name, d)
	if err == nil && check.Faults != nil {
		err = check.Faults
	}
	switch {
	case err == nil:
		view.Checked, view.Warnings, view.Lines = true, check.Warnings, check.Plan
		view.Running = check.Running
		for _, c := range []changesView{
			{v.words, v.T("edit.now"), check.Now}, {v.words, v.T("edit.later"), check.Later},
		} {
			if c.List != nil {
				view.Changes = append(view.Changes, c)
			}
		}
	case view.noteRefusal(err) != nil:
		return err
	}
	return s.showPage(w, http.StatusOK, "edit", view)
}

// noteRefusal records why a definition is refused; it returns other errors.
func (e *editView) noteRefusal(err error) error {
	var faults fleet.Faults
	var refusal fleet.Refusal
	switch {
	case errors.As(err, &faults):
		e.Checked, e.Faults = true, placesOf(faults)
	case errors.As(err, &refusal):
		e.Checked, e.Problem = true, string(refusal)
	default:
		return err
	}
	return nil
}

// deleteView is the page for deleting a VM.
type deleteView struct {
	frame
	Name, Typed string
	Wrong       bool
	// Blocked is why it can't be deleted now.
	Blocked string
	Left    []string
	// Own is the data that can be deleted together with the VM; it may be nil. Data reports that it is.
	Own  []string
	Data bool
}

func (v visit) newDeleteView(vm *fleet.VM) (deleteView, error) {
	view := deleteView{frame: v.newFrame(v.T("delete.title", vm.Name)), Name: vm.Name}
	if !vm.Can[fleet.Delete] {
		view.Blocked = v.whyImpossible(vm, fleet.Delete)
	}
	var err error
	if view.Left, err = v.s.opts.Fleet.Left(v.ctx, vm.Name); err != nil {
		return view, err
	}
	if all := v.s.opts.Fleet.DataDeletion(); all != nil {
		view.Own, err = all.OwnData(v.ctx, vm.Name)
	}
	return view, err
}

func (s *Server) getDelete(w http.ResponseWriter, r *http.Request) error {
	v := s.visitOf(r)
	vm, err := v.requestedVM(r, access.Delete)
	if err != nil {
		return err
	}
	view, err := v.newDeleteView(vm)
	if err != nil {
		return err
	}
	return s.showPage(w, http.StatusOK, "delete", view)
}

// postDelete deletes a VM after its name was typed as confirmation.
func (s *Server) postDelete(w http.ResponseWriter, r *http.Request) error {
	v, vm, err := s.postedVM(w, r, access.Delete)
	if err != nil {
		return err
	}
	if typed := r.PostForm.Get("name"); typed != vm.Name {
		view, err := v.newDeleteView(vm)
		if err != nil {
			return err
		}
		view.Wrong, view.Typed, view.Data = true, typed, r.PostForm.Get("data") != ""
		return s.showPage(w, http.StatusUnprocessableEntity, "delete", view)
	}
	_, err = s.deleteVM(r, v, vm, r.PostForm.Get("data") != "")
	if err != nil {
		return err
	}
	return s.answerChange(w, r, "/")
}

// deleteVM deletes a VM, with its data if data is true, and logs it. It returns what stays, if that differs from
// fleet.Definitions.Left.
func (s *Server) deleteVM(r *http.Request, v visit, vm *fleet.VM, data bool) (left []string, err error) {
	all := s.opts.Fleet.DataDeletion()
	what := string(fleet.Delete)
	switch {
	case !data:
		err = s.opts.Fleet.Do(r.Context(), v.who.User, vm.Name, fleet.Delete)
	case all == nil:
		err = fleet.Refusal(v.T("delete.nodata"))
	default:
		what = "delete with data"
		left, err = all.DeleteWithData(r.Context(), v.who.User, vm.Name)
	}
	s.recordAction(r, vm.Name, what, err)
	return left, err
}
