package web

import (
	"errors"
	"net/http"
	"net/url"
	"strings"

	"vmop/manager/access"
	"vmop/manager/web/fleet"
)

// copyLinks returns the links to the pages for cloning and renaming a VM.
func (v visit) copyLinks(vm *fleet.VM) []linkView {
	at := "/vms/" + url.PathEscape(vm.Name)
	clone := v.linkTo("clone", at+"/clone", "copy", access.Create, &fleet.VM{})
	if v.s.opts.Fleet.Copies() == nil {
		clone.Refused = v.T("clone.elsewhere")
		return []linkView{clone}
	}
	return []linkView{clone, v.linkTo("rename", at+"/rename", "pencil", access.Edit, vm)}
}

// copyView is the page for cloning or renaming a VM.
type copyView struct {
	frame
	Name, To string
	// Heading, Lead and Label are texts, Do is the text of the button.
	Heading, Lead, Label, Do string
	Action                   string
	Snapshots                []choiceView
	// Problem is why the last attempt was refused, Blocked why it is impossible now.
	Problem, Blocked string
	// Notes are what the user should know about a completed change.
	Notes []string
}

// copiesOf returns the VM and the interface for a request that copies or renames a VM.
func (v visit) copiesOf(r *http.Request, verb access.Verb) (*fleet.VM, fleet.Copies, error) {
	all := v.s.opts.Fleet.Copies()
	if all == nil {
		return nil, nil, errNoPage
	}
	vm, err := v.requestedVM(r, verb)
	return vm, all, err
}

// clonedVM returns the VM of a request to clone it. That requires permission to edit the VM, because the clone has its
// data, and to create VMs.
func (v visit) clonedVM(r *http.Request) (*fleet.VM, fleet.Copies, error) {
	vm, all, err := v.copiesOf(r, access.Edit)
	if err == nil {
		err = v.mayCreate()
	}
	return vm, all, err
}

func (v visit) newCloneView(vm *fleet.VM, snapshot, to string) copyView {
	view := copyView{
		frame: v.newFrame(v.T("clone.title", vm.Name)), Name: vm.Name, To: to, Action: "clone",
		Heading: v.T("clone.title", vm.Name), Lead: v.T("clone.lead"), Label: v.T("clone.name"), Do: v.T("link.clone"),
	}
	view.Snapshots = []choiceView{{"", v.T("clone.current"), snapshot == ""}}
	for _, s := range vm.Snapshots {
		view.Snapshots = append(view.Snapshots, choiceView{s.Name, v.T("clone.snapshot", s.Name), s.Name == snapshot})
	}
	return view
}

func (s *Server) getClone(w http.ResponseWriter, r *http.Request) error {
	v := s.visitOf(r)
	vm, _, err := v.clonedVM(r)
	if err != nil {
		return err
	}
	return s.showPage(w, http.StatusOK, "copy", v.newCloneView(vm, r.URL.Query().Get("snapshot"), ""))
}

// noteProblem records why a change is refused; it returns other errors.
func (c *copyView) noteProblem(err error) error {
	if errors.As(err, new(fleet.Refusal)) || errors.Is(err, fleet.ErrExists) {
		c.Problem = err.Error()
		return nil
	}
	return err
}

func (s *Server) postClone(w http.ResponseWriter, r *http.Request) error {
	if err := parseForm(w, r); err != nil {
		return err
	}
	v := s.visitOf(r)
	vm, all, err := v.clonedVM(r)
	if err != nil {
		return err
	}
	snapshot, to := r.PostForm.Get("snapshot"), strings.TrimSpace(r.PostForm.Get("to"))
	err = all.Clone(r.Context(), v.who.User, vm.Name, snapshot, to)
	s.recordAction(r, vm.Name, "clone", err)
	if err == nil {
		page := "/vms/" + url.PathEscape(vm.Name) // shows the progress
		if _, err := s.opts.Fleet.Get(to); err == nil {
			page = "/vms/" + url.PathEscape(to)
		}
		return s.answerChange(w, r, page)
	}
	view := v.newCloneView(vm, snapshot, to)
	if err := view.noteProblem(err); err != nil {
		return err
	}
	return s.showPage(w, http.StatusUnprocessableEntity, "copy", view)
}

func (v visit) newRenameView(vm *fleet.VM, to string) copyView {
	view := copyView{
		frame: v.newFrame(v.T("rename.title", vm.Name)), Name: vm.Name, To: to, Action: "rename",
		Heading: v.T("rename.title", vm.Name), Lead: v.T("rename.lead"), Label: v.T("rename.name"),
		Do: v.T("link.rename"),
	}
	if vm.State != fleet.Stopped && vm.State != fleet.Failed {
		view.Blocked = v.T("snapshot.stopfirst")
	}
	return view
}

func (s *Server) getRename(w http.ResponseWriter, r *http.Request) error {
	v := s.visitOf(r)
	vm, _, err := v.copiesOf(r, access.Edit)
	if err != nil {
		return err
	}
	return s.showPage(w, http.StatusOK, "copy", v.newRenameView(vm, vm.Name))
}

func (s *Server) postRename(w http.ResponseWriter, r *http.Request) error {
	if err := parseForm(w, r); err != nil {
		return err
	}
	v := s.visitOf(r)
	vm, all, err := v.copiesOf(r, access.Edit)
	if err != nil {
		return err
	}
	to := strings.TrimSpace(r.PostForm.Get("to"))
	notes, err := all.Rename(r.Context(), v.who.User, vm.Name, to)
	s.recordAction(r, vm.Name, "rename", err)
	switch {
	case err == nil && len(notes) == 0:
		return s.answerChange(w, r, "/vms/"+url.PathEscape(to))
	case err == nil:
		view := v.newRenameView(vm, to)
		view.Notes, view.Heading = notes, v.T("rename.done", vm.Name, to)
		return s.showPage(w, http.StatusOK, "copy", view)
	}
	view := v.newRenameView(vm, to)
	if err := view.noteProblem(err); err != nil {
		return err
	}
	return s.showPage(w, http.StatusUnprocessableEntity, "copy", view)
}

// apiClone creates a VM with copies of the disks of another VM.
func (s *Server) apiClone(w http.ResponseWriter, r *http.Request) error {
	v := s.visitOf(r)
	vm, all, err := v.clonedVM(r)
	if err != nil {
		return err
	}
	var wanted struct {
		Name     string `json:"name"`
		Snapshot string `json:"snapshot"`
	}
	if err := bodyJSON(w, r, &wanted); err != nil {
		return err
	}
	return s.carryOutAPI(w, r, vm, "clone", func() error {
		return all.Clone(r.Context(), v.who.User, vm.Name, wanted.Snapshot, wanted.Name)
	})
}

// apiRename renames a VM, and answers with notes about what was not changed.
func (s *Server) apiRename(w http.ResponseWriter, r *http.Request) error {
	v := s.visitOf(r)
	vm, all, err := v.copiesOf(r, access.Edit)
	if err != nil {
		return err
	}
	var wanted struct {
		Name string `json:"name"`
	}
	if err := bodyJSON(w, r, &wanted); err != nil {
		return err
	}
	dry, err := booleanParameter(r, "dryRun")
	if err != nil {
		return err
	}
	var notes []string
	if !dry {
		notes, err = all.Rename(r.Context(), v.who.User, vm.Name, wanted.Name)
		s.recordAction(r, vm.Name, "rename", err)
		if err != nil {
			return err
		}
	}
	return answerJSON(w, struct {
		Notes []string `json:"notes"`
	}{append([]string{}, notes...)})
}
