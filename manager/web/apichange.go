package web

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"vmop/manager/access"
	"vmop/manager/web/fleet"
)

// readBody reads the body of a request.
func readBody(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	text, err := io.ReadAll(http.MaxBytesReader(w, r.Body, formSize))
	if err != nil {
		return nil, badRequest("read the request: %v", err)
	}
	return text, nil
}

// bodyJSON parses a JSON body. Unknown fields are errors.
func bodyJSON(w http.ResponseWriter, r *http.Request, into any) error {
	text, err := readBody(w, r)
	if err != nil {
		return err
	}
	in := json.NewDecoder(strings.NewReader(string(text)))
	in.DisallowUnknownFields()
	if err := in.Decode(into); err != nil {
		return badRequest("read the request as JSON: %v", err)
	}
	if _, err := in.Token(); !errors.Is(err, io.EOF) {
		return badRequest("read the request as JSON: there is more behind the value")
	}
	return nil
}

// carryOutAPI does something with a VM, except in a dry run, and answers.
func (s *Server) carryOutAPI(w http.ResponseWriter, r *http.Request, vm *fleet.VM, what string, do func() error) error {
	dry, err := booleanParameter(r, "dryRun")
	if err != nil {
		return err
	}
	if !dry {
		err := do()
		s.recordAction(r, vm.Name, what, err)
		if err != nil {
			return err
		}
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// apiAction carries out an action.
func (s *Server) apiAction(w http.ResponseWriter, r *http.Request) error {
	action := fleet.Action(r.PathValue("action"))
	of, known := actions[action]
	if !known || action == fleet.Delete { // deleting uses the DELETE method
		return errNoRoute
	}
	v := s.visitOf(r)
	vm, err := v.requestedVM(r, of.verb)
	if err != nil {
		return err
	}
	if !vm.Can[action] {
		return fleet.Refusal(v.whyImpossible(vm, action))
	}
	return s.carryOutAPI(w, r, vm, string(action), func() error {
		return s.opts.Fleet.Do(r.Context(), v.who.User, vm.Name, action)
	})
}

// apiResize changes the CPUs and RAM of a VM.
func (s *Server) apiResize(w http.ResponseWriter, r *http.Request) error {
	v := s.visitOf(r)
	vm, err := v.requestedVM(r, access.Resize)
	if err != nil {
		return err
	}
	var wanted struct {
		CPUs *int64 `json:"cpus"`
		RAM  string `json:"ram"`
	}
	if err := bodyJSON(w, r, &wanted); err != nil {
		return err
	}
	cpus := ""
	if wanted.CPUs != nil {
		cpus = strconv.FormatInt(*wanted.CPUs, 10)
	}
	size, err := v.parseSize(vm, cpus, wanted.RAM)
	if err != nil {
		return err
	}
	return s.carryOutAPI(w, r, vm, "resize", func() error {
		if size == (fleet.Size{}) {
			return nil
		}
		return s.opts.Fleet.Resize(r.Context(), v.who.User, vm.Name, size)
	})
}

// apiMedium changes the medium in a drive.
func (s *Server) apiMedium(w http.ResponseWriter, r *http.Request) error {
	v := s.visitOf(r)
	vm, err := v.requestedVM(r, access.Edit)
	if err != nil {
		return err
	}
	drive := r.PathValue("drive")
	if !slices.ContainsFunc(vm.Drives, func(d fleet.Drive) bool { return d.Name == drive }) {
		return fleet.Refusal("there is no drive " + drive + " for media")
	}
	var wanted struct {
		Medium string `json:"medium"`
	}
	if err := bodyJSON(w, r, &wanted); err != nil {
		return err
	}
	return s.carryOutAPI(w, r, vm, "medium", func() error {
		return s.opts.Fleet.Insert(r.Context(), v.who.User, vm.Name, drive, strings.TrimSpace(wanted.Medium))
	})
}

// apiDelete deletes a VM, and answers with what stays.
func (s *Server) apiDelete(w http.ResponseWriter, r *http.Request) error {
	v := s.visitOf(r)
	vm, err := v.requestedVM(r, access.Delete)
	if err != nil {
		return err
	}
	dry, err := booleanParameter(r, "dryRun")
	if err != nil {
		return err
	}
	if !vm.Can[fleet.Delete] {
		return fleet.Refusal(v.whyImpossible(vm, fleet.Delete))
	}
	data, err := booleanParameter(r, "data")
	if err != nil {
		return err
	}
	left, err := s.opts.Fleet.Left(r.Context(), vm.Name)
	if err != nil {
		return err
	}
	if !dry {
		now, err := s.deleteVM(r, v, vm, data)
		if err != nil {
			return err
		}
		if data {
			left = now
		}
	}
	return answerJSON(w, struct {
		Left []string `json:"left"`
	}{append([]string{}, left...)})
}

// apiDefinition answers with the definition of a VM. Its version is the ETag.
func (s *Server) apiDefinition(w http.ResponseWriter, r *http.Request) error {
	vm, err := s.visitOf(r).requestedVM(r, access.Edit)
	if err != nil {
		return err
	}
	d, err := s.opts.Fleet.Definition(r.Context(), vm.Name)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/yaml")
	w.Header().Set("ETag", fmt.Sprintf("%q", d.Version))
	_, _ = w.Write([]byte(d.Text)) // the client may be gone
	return nil
}

// errNoCondition is the error for a definition without If-Match or If-None-Match.
var errNoCondition = refused{
	http.StatusPreconditionRequired, "condition",
	"send the header If-Match with the ETag of the definition that this replaces, or If-None-Match: * for a new VM",
}

// dataOf parses the choice of what to do with the data of a deleted VM.
func dataOf(text string) (fleet.Data, error) {
	switch data := fleet.Data(text); data {
	case "", fleet.KeepData, fleet.FreshData:
		return data, nil
	}
	return "", badRequest("data must be keep or fresh, not %q", text)
}

// apiDefine creates a VM, or replaces its definition. A dry run answers with what that would do.
func (s *Server) apiDefine(w http.ResponseWriter, r *http.Request) error {
	v, name := s.visitOf(r), r.PathValue("vm")
	version, create := strings.Trim(r.Header.Get("If-Match"), `"`), r.Header.Get("If-None-Match") == "*"
	dry, err := booleanParameter(r, "dryRun")
	switch {
	case err != nil:
		return err
	case create && version == "":
		err = v.mayCreate()
	case create || version == "":
		err = errNoCondition
	default:
		_, err = v.requestedVM(r, access.Edit)
	}
	if err != nil {
		return err
	}
	text, err := readBody(w, r)
	if err != nil {
		return err
	}
	data, err := dataOf(r.URL.Query().Get("data"))
	if err != nil {
		return err
	}
	d := &fleet.Definition{Text: unixLines(string(text)), Version: version}
	if dry {
		check, err := s.opts.Fleet.Check(r.Context(), name, d)
		if err == nil && check.Faults != nil {
			err = check.Faults
		}
		if err != nil {
			return err
		}
		return answerJSON(w, check)
	}
	what, code := "edit", http.StatusNoContent
	if create {
		what, code = "create", http.StatusCreated
		err = s.opts.Fleet.Create(r.Context(), v.who.User, name, d.Text, data)
	} else {
		err = s.opts.Fleet.Replace(r.Context(), v.who.User, name, d)
	}
	s.recordAction(r, name, what, err)
	if errors.Is(err, fleet.ErrChanged) {
		err = refused{http.StatusPreconditionFailed, errChanged.key, err.Error()}
	}
	if err != nil {
		return err
	}
	w.WriteHeader(code)
	return nil
}
