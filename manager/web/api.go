package web

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"vmop/manager/access"
	"vmop/manager/web/fleet"
)

// apiRoot begins the addresses of the JSON interface: see docs/reference/api.md.
const apiRoot = "/api/"

// apiRoutes returns the handlers of the JSON interface. They share the fleet, access decisions and logging with the
// pages, and for screens and consoles also the handlers.
func (s *Server) apiRoutes() map[string]pageFunc {
	return map[string]pageFunc{
		"GET /api/v1/vms":                                    s.apiList,
		"GET /api/v1/vms/{vm}":                               s.apiVM,
		"GET /api/v1/events":                                 s.apiEvents,
		"POST /api/v1/vms/{vm}/{action}":                     s.apiAction,
		"PATCH /api/v1/vms/{vm}":                             s.apiResize,
		"PUT /api/v1/vms/{vm}/drives/{drive}":                s.apiMedium,
		"PUT /api/v1/vms/{vm}/disks/{disk}":                  s.forPage(access.PageVMs, s.apiAttach),
		"DELETE /api/v1/vms/{vm}/disks/{disk}":               s.forPage(access.PageVMs, s.apiDetach),
		"POST /api/v1/vms/{vm}/disks":                        s.forPage(access.PageVMs, s.apiAttachNew),
		"PATCH /api/v1/vms/{vm}/disks/{disk}":                s.forPage(access.PageVMs, s.apiGrow),
		"POST /api/v1/vms/{vm}/disks/{disk}/export":          s.forPage(access.PageVMs, s.apiExportDisk),
		"POST /api/v1/vms/{vm}/cards":                        s.forPage(access.PageVMs, s.apiAttachCard),
		"PATCH /api/v1/vms/{vm}/cards/{card}":                s.forPage(access.PageVMs, s.apiLink),
		"DELETE /api/v1/vms/{vm}/cards/{card}":               s.forPage(access.PageVMs, s.apiDetachCard),
		"POST /api/v1/vms/{vm}/snapshots":                    s.forPage(access.PageVMs, s.apiSnapshot),
		"DELETE /api/v1/vms/{vm}/snapshots/{snapshot}":       s.forPage(access.PageVMs, s.apiSnapshotDelete),
		"POST /api/v1/vms/{vm}/snapshots/{snapshot}/restore": s.forPage(access.PageVMs, s.apiRestore),
		"PUT /api/v1/vms/{vm}/autostart":                     s.forPage(access.PageVMs, s.apiAutostart),
		"POST /api/v1/vms/{vm}/clone":                        s.forPage(access.PageVMs, s.apiClone),
		"POST /api/v1/vms/{vm}/rename":                       s.forPage(access.PageVMs, s.apiRename),
		"GET /api/v1/disks":                                  s.forPage(access.PageVMs, s.apiDisks),
		"POST /api/v1/disks":                                 s.forPage(access.PageVMs, s.apiCreateDisk),
		"PATCH /api/v1/disks/{kind}/{disk}":                  s.forPage(access.PageVMs, s.apiGrowDisk),
		"DELETE /api/v1/disks/{kind}/{disk}":                 s.forPage(access.PageVMs, s.apiDeleteDisk),
		"PUT /api/v1/disks/{kind}/{disk}/data":               s.forPage(access.PageVMs, s.apiUpload),
		"DELETE /api/v1/disks/{kind}/{disk}/data":            s.forPage(access.PageVMs, s.apiUpload),
		"POST /api/v1/disks/{kind}/{disk}/export":            s.forPage(access.PageVMs, s.apiExport),
		"GET /api/v1/disks/{kind}/{disk}/data":               s.forPage(access.PageVMs, s.apiDownload),
		"GET /api/v1/pools":                                  s.apiPools,
		"GET /api/v1/pools/{pool}":                           s.apiPool,
		"POST /api/v1/pools/{pool}/claim":                    s.apiClaim,
		"POST /api/v1/vms/{vm}/release":                      s.apiRelease,
		"DELETE /api/v1/vms/{vm}":                            s.forPage(access.PageVMs, s.apiDelete),
		"GET /api/v1/vms/{vm}/definition":                    s.forPage(access.PageVMs, s.apiDefinition),
		"PUT /api/v1/vms/{vm}/definition":                    s.forPage(access.PageVMs, s.apiDefine),
		"GET /api/v1/vms/{vm}/plan":                          s.forPage(access.PageVMs, s.apiPlan),
		"GET /api/v1/vms/{vm}/devices":                       s.forPage(access.PageVMs, s.apiDevices),
		"GET /api/v1/vms/{vm}/source":                        s.forPage(access.PageVMs, s.apiSource),
		"GET /api/v1/vms/{vm}/usage":                         s.forPage(access.PageVMs, s.apiUsage),
		"GET /api/v1/vms/{vm}/screenshot":                    s.apiScreenshot,
		"GET /api/v1/vms/{vm}/screen":                        s.streamScreen,
		"GET /api/v1/vms/{vm}/console":                       s.streamConsole,
		"GET /api/v1/vms/{vm}/spice":                         s.streamSPICE,
		"GET /api/v1/vms/{vm}/port/{port}":                   s.streamPort,
	}
}

// isAPI reports whether a request belongs to the JSON interface.
func isAPI(r *http.Request) bool { return strings.HasPrefix(r.URL.Path, apiRoot) }

// A refused is an error that only the JSON interface has.
type refused struct {
	code      int
	key, text string
}

func (e refused) Error() string { return e.text }

var errNoRoute = refused{http.StatusNotFound, "noRequest", "there is no such request; docs/reference/api.md has all"}

// badRequest returns the error for an invalid request.
func badRequest(format string, values ...any) error {
	return refused{http.StatusBadRequest, "wrongRequest", fmt.Sprintf(format, values...)}
}

// A problem is an error response (RFC 9457). Its type is the default, about:blank. Programs should check Reason.
type problem struct {
	Title  string       `json:"title"`
	Status int          `json:"status"`
	Detail string       `json:"detail"`
	Reason string       `json:"reason"`
	Faults fleet.Faults `json:"faults,omitempty"`
}

// failAPI answers with an error.
func failAPI(w http.ResponseWriter, code int, text string, err error) {
	p := problem{Title: http.StatusText(code), Status: code, Detail: text, Reason: errorKey(err)}
	_ = errors.As(err, &p.Faults)
	if code == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", "Bearer")
	}
	writeJSON(w, code, "application/problem+json", p)
}

// errorKey returns the kind of an error for programs, usually the key of its text.
func errorKey(err error) string {
	var f failure
	var no forbidden
	var e refused
	switch {
	case errors.As(err, &f):
		return f.key
	case errors.As(err, &no):
		return no.Reason.Key
	case errors.As(err, &e):
		return e.key
	case errors.Is(err, fleet.ErrNotFound):
		return errNoVM.key
	case errors.Is(err, fleet.ErrChanged):
		return errChanged.key
	case errors.Is(err, fleet.ErrExists):
		return "exists"
	case errors.As(err, new(fleet.Leftover)):
		return "leftover"
	case errors.Is(err, fleet.ErrOccupied):
		return "occupied"
	case errors.As(err, new(fleet.Faults)):
		return "faults"
	case errors.As(err, new(fleet.Refusal)):
		return "refused"
	case errors.As(err, new(fleet.NotYet)):
		return "notYet"
	}
	return "failed"
}

// answerJSON answers with a value.
func answerJSON(w http.ResponseWriter, value any) error {
	writeJSON(w, http.StatusOK, "application/json", value)
	return nil
}

func writeJSON(w http.ResponseWriter, code int, kind string, value any) {
	w.Header().Set("Content-Type", kind)
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(value) // the client may be gone
}

// booleanParameter parses a parameter with the value true or false; false if it is missing.
func booleanParameter(r *http.Request, name string) (bool, error) {
	text := r.URL.Query().Get(name)
	if text == "" {
		return false, nil
	}
	value, err := strconv.ParseBool(text)
	if err != nil {
		return false, badRequest("%s=%q: must be true or false", name, text)
	}
	return value, nil
}

// An apiVM is a VM with the fields that the visitor may see. Users of the portal see only what a card shows.
type apiVM struct {
	*fleet.VM
	// Can lists the actions that the visitor may do and that are possible now.
	Can []fleet.Action `json:"can"`
	// Screen, SPICE and Console report whether the visitor can open them now.
	Screen  bool `json:"screen"`
	SPICE   bool `json:"spice"`
	Console bool `json:"console"`
	// UsedBy is the current user of the screen or console, or the user who is logged in to the desktop.
	UsedBy string `json:"usedBy,omitempty"`
	// Busy reports that the VM is changing to its wanted state.
	Busy bool `json:"busy"`
}

// vmFor returns a VM as the visitor may see it.
func (v visit) vmFor(vm *fleet.VM) apiVM {
	sees := vm.State.Up() && v.whyRefused(access.AccessConsole, vm) == ""
	one := apiVM{
		VM: v.mayKnow(vm), Can: []fleet.Action{}, UsedBy: usedBy(vm), Busy: isChanging(vm),
		Screen: sees && vm.Screen, SPICE: sees && vm.SPICE, Console: sees && vm.Console,
	}
	for _, a := range fleet.Actions() {
		if vm.Can[a] && v.whyRefused(actions[a].verb, vm) == "" {
			one.Can = append(one.Can, a)
		}
	}
	return one
}

// mayKnow returns the fields of a visible VM that the visitor may know.
func (v visit) mayKnow(vm *fleet.VM) *fleet.VM {
	if v.mayUse(access.PageVMs) == nil {
		return vm
	}
	return &fleet.VM{Name: vm.Name, State: vm.State, Since: vm.Since, OS: vm.OS, OSID: vm.OSID}
}

// mayUseAny returns an error if the visitor may use neither the table of VMs nor the portal.
func (v visit) mayUseAny() error {
	if v.mayUse(access.PageVMs) == nil {
		return nil
	}
	return v.mayUse(access.PagePortal)
}

// apiList answers with a page of the list.
func (s *Server) apiList(w http.ResponseWriter, r *http.Request) error {
	v, q := s.visitOf(r), parseQuery(r.URL.Query())
	if err := v.mayUseAny(); err != nil {
		return err
	}
	all, page := v.searchVMs(&q)
	list := struct {
		Items []apiVM `json:"items"`
		Page  int     `json:"page"`
		Pages int     `json:"pages"`
		Total int     `json:"total"`
	}{make([]apiVM, len(page)), q.Page, q.countPages(len(all)), len(all)}
	for i, vm := range page {
		list.Items[i] = v.vmFor(vm)
	}
	return answerJSON(w, list)
}

// searchVMs returns the VMs of a query, and the VMs on its page. It searches only fields that the visitor may know,
// because a match would reveal the others.
func (v visit) searchVMs(q *query) (all, page []*fleet.VM) {
	visible := v.visibleVMs()
	byKnown := make(map[*fleet.VM]*fleet.VM, len(visible))
	known := make([]*fleet.VM, len(visible))
	for i, vm := range visible {
		known[i] = v.mayKnow(vm)
		byKnown[known[i]] = vm
	}
	whole := func(list []*fleet.VM) []*fleet.VM {
		vms := make([]*fleet.VM, len(list))
		for i, vm := range list {
			vms[i] = byKnown[vm]
		}
		return vms
	}
	all, page = q.chooseVMs(known)
	return whole(all), whole(page)
}

func (s *Server) apiVM(w http.ResponseWriter, r *http.Request) error {
	v := s.visitOf(r)
	if err := v.mayUseAny(); err != nil {
		return err
	}
	vm, err := v.requestedVM(r, access.View)
	if err != nil {
		return err
	}
	return answerJSON(w, v.vmFor(vm))
}

// apiPlan answers with the arguments of QEMU and their origins.
func (s *Server) apiPlan(w http.ResponseWriter, r *http.Request) error {
	vm, err := s.visitOf(r).requestedVM(r, access.Edit)
	if err != nil {
		return err
	}
	lines, err := s.opts.Fleet.Plan(r.Context(), vm.Name)
	if err != nil {
		return err
	}
	return answerJSON(w, lines)
}

// apiDevices answers with the devices of the machine and their names in the guest.
func (s *Server) apiDevices(w http.ResponseWriter, r *http.Request) error {
	vm, err := s.visitOf(r).requestedVM(r, access.Edit)
	if err != nil {
		return err
	}
	report, err := s.opts.Fleet.Devices(r.Context(), vm.Name)
	if err != nil {
		return err
	}
	return answerJSON(w, report)
}

func (s *Server) apiSource(w http.ResponseWriter, r *http.Request) error {
	vm, err := s.visitOf(r).requestedVM(r, access.Edit)
	if err != nil {
		return err
	}
	text, err := s.opts.Fleet.Source(r.Context(), vm.Name, r.URL.Query().Get("module"))
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, _ = w.Write([]byte(text)) // the client may be gone
	return nil
}

func (s *Server) apiUsage(w http.ResponseWriter, r *http.Request) error {
	vm, err := s.visitOf(r).requestedVM(r, access.View)
	if err != nil {
		return err
	}
	samples, err := s.opts.Fleet.Usage(r.Context(), vm.Name)
	if err != nil {
		return err
	}
	if samples == nil {
		samples = []fleet.Sample{}
	}
	return answerJSON(w, samples)
}

func (s *Server) apiScreenshot(w http.ResponseWriter, r *http.Request) error {
	vm, err := s.visitOf(r).requestedVM(r, access.AccessConsole)
	if err != nil {
		return err
	}
	png, err := s.takeScreenshot(r.Context(), vm.Name)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "image/png")
	_, _ = w.Write(png) // the client may be gone
	return nil
}
