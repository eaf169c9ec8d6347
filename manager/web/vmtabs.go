package web

import (
	"crypto/rand"
	"net/http"
	"net/url"
	"strings"

	"vmop/manager/access"
	"vmop/manager/web/fleet"
)

// vmTabs are the pages about a VM, with their addresses below the VM's, in the order of their tabs.
var vmTabs = []struct {
	key, path string
	verb      access.Verb
}{
	{"overview", "", access.View},
	{"screen", "/screen/page", access.AccessConsole},
	{"console", "/console/page", access.AccessConsole},
	{"disks", "/disks", access.View},
	{"network", "/network", access.View},
	{"history", "/history", access.View},
	{"why", "/plan", access.Edit},
}

// vmFrame is the frame of a page about a VM: its head, its problems, and the tabs.
type vmFrame struct {
	frame
	Head headView
	// Notice is a message for this view only.
	Notice string
	Alerts alertsView
	Tabs   []tabView
}

// A tabView links to a page about a VM.
type tabView struct {
	Text, Href string
	Current    bool
}

// newVMFrame returns the frame of a page. tab is the key of its tab.
func (v visit) newVMFrame(vm *fleet.VM, tab string) vmFrame {
	f := vmFrame{frame: v.newFrame(vm.Name), Head: v.headOf(vm), Alerts: v.alertsOf(vm)}
	f.Live = "/live?vm=" + url.QueryEscape(vm.Name)
	for _, t := range vmTabs {
		has := t.key != "screen" && t.key != "console" || !vm.State.Up() || windowOf(vm, t.key)
		if has && v.whyRefused(t.verb, vm) == "" {
			href := "/vms/" + url.PathEscape(vm.Name) + t.path
			f.Tabs = append(f.Tabs, tabView{v.T("tab." + t.key), href, t.key == tab})
		}
	}
	return f
}

// windowOf reports whether a VM has a screen or console now.
func windowOf(vm *fleet.VM, kind string) bool {
	if kind == "screen" {
		return vm.Screen
	}
	return vm.Console
}

// tabPage returns the handler of a tab that the template of this name shows.
func (s *Server) tabPage(tab, name string) pageFunc {
	return s.forPage(access.PageVMs, func(w http.ResponseWriter, r *http.Request) error {
		v := s.visitOf(r)
		vm, err := v.requestedVM(r, access.View)
		if err != nil {
			return err
		}
		view := v.vmView(vm, nil)
		view.vmFrame = v.newVMFrame(vm, tab)
		view.Attach = v.attachableDisks(vm)
		view.Notice = takeNotice(w, r, vm.Name)
		if tab == "history" {
			view.Log = v.logOf(r, vm)
		}
		return s.showPage(w, http.StatusOK, name, view)
	})
}

// logView is the end of the log of a VM.
type logView struct {
	words
	// Shown reports that the visitor may see the log, if this fleet has logs.
	Shown bool
	// Text is the log, Refused why there is none.
	Text, Refused string
}

func (v visit) logOf(r *http.Request, vm *fleet.VM) logView {
	view := logView{words: v.words}
	logs, has := v.s.opts.Fleet.(fleet.Logs)
	if !has || v.whyRefused(access.Edit, vm) != "" {
		return view
	}
	view.Shown = true
	text, err := logs.Log(r.Context(), vm.Name)
	if err != nil {
		_, view.Refused = v.s.explainError(r, err)
	}
	view.Text = text
	return view
}

// A vmWindowView is a tab with the screen or console.
type vmWindowView struct {
	vmFrame
	Inner windowView
	// Kind is screen or console. Lacking is why the VM lacks it now; "" if the VM has it.
	Kind, Lacking string
}

// windowPage returns the handler of a tab with the screen or console. The page is reloaded when it comes or goes.
func (s *Server) windowPage(kind string) pageFunc {
	return s.forPage(access.PageVMs, func(w http.ResponseWriter, r *http.Request) error {
		v := s.visitOf(r)
		vm, err := v.requestedVM(r, access.AccessConsole)
		if err != nil {
			return err
		}
		view := vmWindowView{vmFrame: v.newVMFrame(vm, kind), Inner: v.newWindowView(vm, kind), Kind: kind}
		view.Inner.Embedded = true
		view.Live += "&" + windowKey + "=" + kind
		if windowOf(vm, kind) {
			view.Script = kind + ".js"
		} else {
			view.Live += "&" + emptyKey + "=1"
			view.Lacking = v.T("vm.lacks.down")
			if vm.State.Up() {
				view.Lacking = v.T("portal.lacks." + kind)
			}
		}
		if kind == "console" {
			view.Nonce = allowStyles(w)
		}
		return s.showPage(w, http.StatusOK, "vmwindow", view)
	})
}

// windowKey is the parameter of the stream of a page with a screen or console.
const windowKey = "shows"

// checkWindow returns an error if a page with a screen or console must be reloaded, because it has come or gone.
func (v visit) checkWindow(name string, q url.Values) error {
	kind := q.Get(windowKey)
	if kind == "" {
		return nil
	}
	vm, err := v.s.opts.Fleet.Get(name)
	if err != nil {
		return err
	}
	if err := v.checkVerb(access.AccessConsole, vm); err != nil {
		return err
	}
	if windowOf(vm, kind) == q.Has(emptyKey) {
		return errOtherPage
	}
	return nil
}

// allowStyles allows the style elements that xterm.js creates, and returns their nonce.
func allowStyles(w http.ResponseWriter) (nonce string) {
	nonce = rand.Text()
	w.Header().Set("Content-Security-Policy",
		strings.Replace(policy, "style-src 'self'", "style-src 'self' 'nonce-"+nonce+"'", 1))
	return nonce
}
