package web

import (
	"net/http"
	"net/url"

	"golang.org/x/text/language"
	"golang.org/x/text/language/display"

	"vmop/manager/access"
	"vmop/manager/web/fleet"
)

// windowView is a window with the screen or console of a VM.
type windowView struct {
	frame
	Name  string
	State windowState
	Keys  []keyView
	// Layouts are the keyboard layouts for typing a text.
	Layouts []layoutChoice
	// TakeRefused is why the visitor may not take over from another viewer; "" if the visitor may.
	TakeRefused string
	// Embedded reports that the window is part of a page about the VM, which has the state and the actions.
	Embedded bool
}

// A layoutChoice is a keyboard layout, named after its usual language.
type layoutChoice struct{ Code, Name string }

// layouts are the layouts in the script of the screen (ts/src/layouts.ts).
var layouts = []string{"en-US", "en-GB", "de", "de-CH", "fr", "es", "it"}

// windowState contains the changing parts of a window.
type windowState struct {
	words
	State stateView
	// UsedBy describes the user with the keyboard, unless that is the visitor; "" if there is none.
	UsedBy  string
	Buttons []button
	Media   mediaView
}

// keyView is a key combination: web key codes (KeyboardEvent.code) to press in this order.
type keyView struct{ Name, Codes string }

var combinations = []keyView{
	{"Ctrl-Alt-Backspace", "ControlLeft AltLeft Backspace"},
	{"Ctrl-Alt-F1", "ControlLeft AltLeft F1"},
	{"Ctrl-Alt-F2", "ControlLeft AltLeft F2"},
	{"Ctrl-Alt-F7", "ControlLeft AltLeft F7"},
	{"Ctrl-C", "ControlLeft KeyC"},
	{"Alt-Tab", "AltLeft Tab"},
	{"Alt-F4", "AltLeft F4"},
	{"Super", "MetaLeft"},
	{"Super-L", "MetaLeft KeyL"},
	{"Print", "PrintScreen"},
	{"Esc", "Escape"},
	{"Tab", "Tab"},
}

func (v visit) windowState(vm *fleet.VM, kind string) windowState {
	w := windowState{words: v.words, State: v.stateOf(vm), Media: v.mediaOf(vm)}
	if user := typistOf(vm, kinds[kind]); user != "" && user != v.who.User {
		w.UsedBy = v.T("portal.usedby", user)
	}
	if w.Media.Refused != "" {
		w.Media.Drives = nil // they are part of the definition
	}
	for _, a := range []fleet.Action{
		fleet.Start, fleet.Resume, fleet.Pause, fleet.Stop, fleet.Restart, fleet.Reset, fleet.Kill,
	} {
		if vm.Can[a] {
			w.Buttons = append(w.Buttons, v.buttonFor(vm, a))
		}
	}
	return w
}

// kinds maps windows to kinds of viewers.
var kinds = map[string]string{"screen": "vnc", "console": "serial"}

// windowParts returns the changing parts of a window.
func (v visit) windowParts(name, kind string) ([]part, error) {
	vm, err := v.s.opts.Fleet.Get(name)
	if err != nil {
		return nil, err
	}
	if err := v.checkVerb(access.View, vm); err != nil {
		return nil, err
	}
	state := v.windowState(vm, kind)
	return v.renderParts(map[string]any{"windowstate": state, "windowbuttons": state, "windowmedia": state})
}

func (v visit) newWindowView(vm *fleet.VM, script string) windowView {
	view := windowView{
		frame: v.newFrame(vm.Name), Name: vm.Name, State: v.windowState(vm, script), Keys: combinations,
		TakeRefused: v.whyRefused(access.TakeConsole, vm),
	}
	for _, code := range layouts {
		view.Layouts = append(view.Layouts, layoutChoice{code, display.Self.Name(language.MustParse(code))})
	}
	view.Window, view.Script = script, script+".js"
	view.Live = "/live?window=" + script + "&vm=" + url.QueryEscape(vm.Name)
	return view
}

func (s *Server) getScreen(w http.ResponseWriter, r *http.Request) error {
	v := s.visitOf(r)
	vm, err := v.requestedVM(r, access.AccessConsole)
	if err != nil {
		return err
	}
	return s.showPage(w, http.StatusOK, "screen", v.newWindowView(vm, "screen"))
}

func (s *Server) getConsole(w http.ResponseWriter, r *http.Request) error {
	v := s.visitOf(r)
	vm, err := v.requestedVM(r, access.AccessConsole)
	if err != nil {
		return err
	}
	view := v.newWindowView(vm, "console")
	view.Nonce = allowStyles(w)
	return s.showPage(w, http.StatusOK, "console", view)
}
