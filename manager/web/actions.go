package web

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"vmop/manager/access"
	"vmop/manager/web/fleet"
)

// formSize is the maximum size of a form in bytes.
const formSize = 1 << 20

// parseForm parses the form of a request.
func parseForm(w http.ResponseWriter, r *http.Request) error {
	r.Body = http.MaxBytesReader(w, r.Body, formSize)
	if err := r.ParseForm(); err != nil {
		return errBadForm
	}
	return nil
}

// postedVM parses a form about a VM, and checks that the visitor has the permission verb for it.
func (s *Server) postedVM(w http.ResponseWriter, r *http.Request, verb access.Verb) (visit, *fleet.VM, error) {
	if err := parseForm(w, r); err != nil {
		return visit{}, nil, err
	}
	v := s.visitOf(r)
	vm, err := v.requestedVM(r, verb)
	return v, vm, err
}

// postAction carries out an action.
func (s *Server) postAction(w http.ResponseWriter, r *http.Request) error {
	if err := parseForm(w, r); err != nil {
		return err
	}
	action := fleet.Action(r.PostForm.Get("do"))
	of, known := actions[action]
	if !known {
		return errBadForm
	}
	v := s.visitOf(r)
	vm, err := v.requestedVM(r, of.verb)
	if err != nil {
		return err
	}
	switch {
	case fromScript(r) || r.PostForm.Get("sure") != "":
	case action == fleet.Delete:
		return s.answerChange(w, r, "/vms/"+url.PathEscape(vm.Name)+"/delete")
	case of.ask:
		return s.askConfirmation(w, r, v.T("do."+string(action)), v.T("ask."+string(action), vm.Name))
	}
	return s.finishAction(w, r, vm, string(action), s.opts.Fleet.Do(r.Context(), v.who.User, vm.Name, action))
}

// postActions carries out an action on several VMs.
func (s *Server) postActions(w http.ResponseWriter, r *http.Request) error {
	if err := parseForm(w, r); err != nil {
		return err
	}
	action := fleet.Action(r.PostForm.Get("do"))
	of, known := actions[action]
	if !known || len(r.PostForm["vm"]) == 0 {
		return errBadForm
	}
	v := s.visitOf(r)
	if of.ask && !fromScript(r) && r.PostForm.Get("sure") == "" {
		return s.askConfirmation(w, r, v.T("do."+string(action)), v.T("ask.bulkstop"))
	}
	var refused []string
	for _, name := range r.PostForm["vm"] {
		vm, err := s.opts.Fleet.Get(name)
		if err == nil {
			err = v.checkVerb(of.verb, vm)
		}
		if err == nil {
			err = s.opts.Fleet.Do(r.Context(), v.who.User, name, action)
			s.recordAction(r, name, string(action), err)
		}
		if err != nil {
			_, text := s.explainError(r, err)
			refused = append(refused, name+": "+text)
		}
	}
	if len(refused) > 0 {
		return fleet.Refusal(strings.Join(refused, "\n"))
	}
	return s.answerChange(w, r, "/")
}

// postSize changes the CPUs and RAM of a VM.
func (s *Server) postSize(w http.ResponseWriter, r *http.Request) error {
	v, vm, err := s.postedVM(w, r, access.Resize)
	if err != nil {
		return err
	}
	size, err := v.parseSize(vm, r.PostForm.Get("cpus"), r.PostForm.Get("ram"))
	if err != nil {
		return err
	}
	if size == (fleet.Size{}) {
		return s.answerChange(w, r, "/vms/"+url.PathEscape(vm.Name))
	}
	return s.finishAction(w, r, vm, "resize", s.opts.Fleet.Resize(r.Context(), v.who.User, vm.Name, size))
}

// parseSize parses the size that a user entered. Unchanged values are nil.
func (v visit) parseSize(vm *fleet.VM, cpus, ram string) (size fleet.Size, err error) {
	var n int64
	if _, err := fmt.Sscanf(cpus, "%d", &n); cpus != "" && (err != nil || n < 1) {
		return size, fleet.Refusal(v.T("new.nonumber"))
	}
	if cpus != "" && n != vm.CPUs.Wanted {
		size.CPUs = &n
	}
	if ram == "" || ram == v.formatBytes(vm.RAM.Wanted) {
		return size, nil
	}
	bytes, ok := parseBytes(ram)
	if !ok || bytes < 1<<20 {
		return size, fleet.Refusal(v.T("new.nosize"))
	}
	bytes = bytes >> 20 << 20
	if bytes != vm.RAM.Wanted {
		size.RAM = &bytes
	}
	return size, nil
}

// postMedium changes the medium in a drive.
func (s *Server) postMedium(w http.ResponseWriter, r *http.Request) error {
	v, vm, err := s.postedVM(w, r, access.Edit)
	if err != nil {
		return err
	}
	drive, medium := r.PostForm.Get("drive"), strings.TrimSpace(r.PostForm.Get("medium"))
	if r.PostForm.Get("eject") != "" {
		medium = ""
	}
	return s.finishAction(w, r, vm, "medium", s.opts.Fleet.Insert(r.Context(), v.who.User, vm.Name, drive, medium))
}

// finishAction logs the result of an action, and answers the request.
func (s *Server) finishAction(w http.ResponseWriter, r *http.Request, vm *fleet.VM, action string, err error) error {
	s.recordAction(r, vm.Name, action, err)
	if err != nil {
		return err
	}
	return s.answerChange(w, r, "/vms/"+url.PathEscape(vm.Name))
}

// recordAction logs an action of the visitor on a VM.
func (s *Server) recordAction(r *http.Request, vm, action string, err error) {
	s.recordOf(r, "vm", vm, action, err)
}

// recordOf logs an action of the visitor on an object of some kind.
func (s *Server) recordOf(r *http.Request, kind, name, action string, err error) {
	var refusal fleet.Refusal
	who := s.opts.Visitors.Of(r).User
	switch {
	case err == nil:
		s.opts.Log.Info("action", "user", who, kind, name, "action", action)
	case errors.As(err, &refusal):
		s.opts.Log.Info("action refused", "user", who, kind, name, "action", action, "because", err)
	default:
		s.opts.Log.Warn("action failed", "user", who, kind, name, "action", action, "err", err)
	}
}

// answerChange answers a successful change. A script gets no content, because the stream delivers the change. A browser
// is redirected to a page.
func (s *Server) answerChange(w http.ResponseWriter, r *http.Request, page string) error {
	if fromScript(r) {
		w.WriteHeader(http.StatusNoContent)
		return nil
	}
	if s.visitOf(r).mayUse(access.PageVMs) != nil {
		page = "/"
	}
	http.Redirect(w, r, page, http.StatusSeeOther)
	return nil
}

// confirmView asks for confirmation in a browser without scripts.
type confirmView struct {
	frame
	Heading, Text, Action, Back string
	Fields                      []fieldView
}

type fieldView struct{ Name, Value string }

func (s *Server) askConfirmation(w http.ResponseWriter, r *http.Request, heading, question string) error {
	v := s.visitOf(r)
	view := confirmView{frame: v.newFrame(heading), Heading: heading, Text: question, Action: r.URL.Path, Back: "/"}
	for name, values := range r.PostForm {
		for _, value := range values {
			view.Fields = append(view.Fields, fieldView{name, value})
		}
	}
	return s.showPage(w, http.StatusOK, "confirm", view)
}

// postLanguage stores the language that the visitor chose.
func (s *Server) postLanguage(w http.ResponseWriter, r *http.Request) error {
	if err := parseForm(w, r); err != nil {
		return err
	}
	tag, known := languageOf(r.PostForm.Get("language"))
	if !known {
		return errBadForm
	}
	http.SetCookie(w, &http.Cookie{
		Name: languageCookie, Value: tag.String(), Path: "/", MaxAge: 365 * 24 * 3600, SameSite: http.SameSiteLaxMode,
	})
	return s.answerChange(w, r, "/")
}
