package web

import (
	"io/fs"
	"net/http"
	"path"

	"vmop/manager/access"
)

// definitionView is the page with the definition of a VM.
type definitionView struct {
	frame
	Name, File, Text string
}

func (s *Server) getDefinition(w http.ResponseWriter, r *http.Request) error {
	v := s.visitOf(r)
	vm, err := v.requestedVM(r, access.Edit)
	if err != nil {
		return err
	}
	d, err := s.opts.Fleet.Definition(r.Context(), vm.Name)
	if err != nil {
		return err
	}
	view := definitionView{v.newFrame(v.T("definition.title")), vm.Name, vm.File, d.Text}
	return s.showPage(w, http.StatusOK, "definition", view)
}

// aboutView is the page with the version, and the licenses of the files for browsers.
type aboutView struct {
	frame
	Licences []licenceView
}

type licenceView struct{ Name, Text string }

func (s *Server) getAbout(w http.ResponseWriter, r *http.Request) error {
	v := s.visitOf(r)
	view := aboutView{frame: v.newFrame(v.T("about.title"))}
	files, err := fs.Glob(staticFiles, "static/licences/*.txt")
	if err != nil {
		return err
	}
	for _, file := range files {
		text, err := staticFiles.ReadFile(file)
		if err != nil {
			return err
		}
		name := path.Base(file)
		view.Licences = append(view.Licences, licenceView{name[:len(name)-len(".txt")], string(text)})
	}
	return s.showPage(w, http.StatusOK, "about", view)
}
