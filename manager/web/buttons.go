package web

import (
	"cmp"
	"html/template"
	"net/url"
	"slices"

	"vmop/manager/access"
	"vmop/manager/web/fleet"
)

// A button carries out an action.
type button struct {
	// Path is the address of the request.
	Path   string
	Action fleet.Action
	ID     string
	Class  string
	Label  string
	Icon   template.HTML
	// Refused is why the button is disabled; "" if it is enabled.
	Refused string
	// Question is the confirmation to ask for; "" for none.
	Question string
}

// actions contains the properties of each action for the pages.
var actions = map[fleet.Action]struct {
	verb access.Verb
	icon string
	ask  bool
}{
	fleet.Start:        {access.Start, "play", false},
	fleet.Stop:         {access.Stop, "stop", true},
	fleet.Kill:         {access.Stop, "off", true},
	fleet.Restart:      {access.Stop, "restart", true},
	fleet.ForceRestart: {access.Stop, "restart", true},
	fleet.Reset:        {access.Reset, "reset", true},
	fleet.Pause:        {access.Stop, "pause", false},
	fleet.Resume:       {access.Start, "play", false},
	fleet.Migrate:      {access.Stop, "move", false},
	fleet.Delete:       {access.Delete, "delete", true},
}

// buttonFor returns the button for an action.
func (v visit) buttonFor(vm *fleet.VM, a fleet.Action) button {
	of := actions[a]
	b := button{
		Path: "/vms/" + url.PathEscape(vm.Name) + "/do", Action: a, ID: string(a) + "-" + vm.Name,
		Label: v.T("do." + string(a)), Icon: v.Icon(of.icon), Refused: v.whyRefused(of.verb, vm),
	}
	if of.ask {
		b.Question = v.T("ask."+string(a), vm.Name)
	}
	if b.Refused == "" && !vm.Can[a] {
		b.Refused = v.whyImpossible(vm, a)
	}
	return b
}

// whyImpossible returns why an action is not possible now, regardless of permissions.
func (v visit) whyImpossible(vm *fleet.VM, a fleet.Action) string {
	return cmp.Or(vm.Refused[a], v.T("refused.state", v.T("state."+string(vm.State))))
}

// A linkView links to a page, if the visitor may use it.
type linkView struct {
	ID, Href, Label, Class string
	Icon                   template.HTML
	// Refused is why the link is disabled; "" if it is enabled.
	Refused string
}

// linkTo returns a link to a page that needs a permission for a VM. The zero VM stands for a new VM.
func (v visit) linkTo(id, href, icon string, verb access.Verb, vm *fleet.VM) linkView {
	return linkView{ID: id, Href: href, Label: v.T("link." + id), Icon: v.Icon(icon), Refused: v.whyRefused(verb, vm)}
}

// buttonsFor returns the buttons for actions.
func (v visit) buttonsFor(vm *fleet.VM, all ...fleet.Action) []button {
	list := make([]button, len(all))
	for i, a := range all {
		list[i] = v.buttonFor(vm, a)
	}
	return list
}

// firstAction returns the most likely action for a VM's state.
func firstAction(vm *fleet.VM) fleet.Action {
	switch {
	case vm.Can[fleet.Resume]:
		return fleet.Resume
	case vm.Can[fleet.Start] || !vm.Can[fleet.Stop] && !(vm.Wanted && vm.State.Up()):
		return fleet.Start
	}
	return fleet.Stop
}

// visibleActions returns the actions for the head of a VM's page: the most likely one first.
func visibleActions(vm *fleet.VM) []fleet.Action {
	first := firstAction(vm)
	if first == fleet.Stop && vm.Can[fleet.Restart] {
		return []fleet.Action{first, fleet.Restart}
	}
	return []fleet.Action{first}
}

// otherActions returns the actions for the menu. Deletion has its own page. The menu of a running VM also shows
// impossible actions that have a reason.
func otherActions(vm *fleet.VM) []fleet.Action {
	var list []fleet.Action
	for _, a := range fleet.Actions() {
		shown := vm.Can[a] || vm.State == fleet.Running && a != fleet.Start && vm.Refused[a] != ""
		if !slices.Contains(visibleActions(vm), a) && a != fleet.Delete && shown {
			list = append(list, a)
		}
	}
	return list
}

// stateView is a state as pages show it.
type stateView struct{ Class, Text string }

func (v visit) stateOf(vm *fleet.VM) stateView {
	class := "off"
	switch s := vm.State; {
	case s == fleet.Running:
		class = "on"
	case s == fleet.Failed || s == fleet.Unmanaged:
		class = "bad"
	case s == fleet.Paused:
		class = "held"
	case s.Changing():
		class = "busy"
	}
	if vm.Migration != nil && vm.State == fleet.Running {
		return stateView{"busy", v.T("state.Migrating")}
	}
	return stateView{class, v.T("state." + string(vm.State))}
}
