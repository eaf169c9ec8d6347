package web

import (
	"cmp"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"vmop/manager/access"
	"vmop/manager/web/fleet"
)

// vmView contains the parts of the pages about a VM. Most are updated independently.
type vmView struct {
	vmFrame
	Facts   factsView
	Picture pictureView
	Size    sizeView
	Media   mediaView
	Volumes volumesView
	// Attach is not updated.
	Attach    attachView
	Snapshots snapshotsView
	Autostart autostartView
	Pending   pendingView
	Usage     usageView
	History   historyView
	Network   networkView
	// Log is not updated.
	Log logView
}

// headView is the head of a page about a VM. More and Links are in its menu, and Delete is its last entry.
type headView struct {
	words
	Name          string
	State         stateView
	Since         time.Time
	Address       string
	SPICE         bool
	Buttons, More []button
	Links         []linkView
	Delete        linkView
}

// networkView shows the network cards and addresses of a VM.
type networkView struct {
	words
	// Name is the VM's name, Networks the types of networks of new cards, and Refused why cards can't be changed.
	Name, Refused string
	Networks      []string
	SSH           string
	Cards         []fleet.Card
	Addresses     []addressView
}

// An addressView is an address of the guest. Reach describes its ports, and from where it is reachable.
type addressView struct{ Address, Reach string }

// alertsView shows the problems of a VM.
type alertsView struct {
	words
	Why, Level, Advice string
	Activity           string
	Problems           []fleet.Problem
}

type factsView struct {
	words
	Facts []factView
}

// A factView has a name and values.
type factView struct {
	Name   string
	Values []valueView
}

// A valueView is a text or a time. Copy, if not empty, is the text that a button copies.
type valueView struct {
	Text string
	Time time.Time
	Copy string
	Code bool
}

// Parts returns the text in parts, between which a line can break.
func (v valueView) Parts() []string { return strings.SplitAfter(v.Text, "/") }

type pictureView struct {
	words
	Name, Source string
}

type sizeView struct {
	words
	Name, Refused string
	CPUs          fleet.Amount
	CPUsNow       string
	RAM, RAMNow   string
	// Effect describes when a change takes effect.
	Effect string
}

type mediaView struct {
	words
	Name, Refused string
	Drives        []fleet.Drive
	// Media are suggestions.
	Media []fleet.Medium
}

type pendingView struct {
	words
	Changes []fleet.Change
	Buttons []button
}

func (v visit) vmView(vm *fleet.VM, events []fleet.Event) vmView {
	return vmView{
		vmFrame: vmFrame{Head: v.headOf(vm), Alerts: v.alertsOf(vm)}, Facts: v.factsOf(vm),
		Picture: v.pictureOf(vm), Network: v.networkOf(vm),
		Size: v.sizeOf(vm), Media: v.mediaOf(vm), Volumes: v.volumesOf(vm), Snapshots: v.snapshotsOf(vm),
		Autostart: v.autostartOf(vm), Pending: v.pendingOf(vm), Usage: v.newUsageView(vm),
		History: v.newHistoryView(vm, events),
	}
}

// pageLinks returns the links to further pages about a VM, in the menu of its head.
func (v visit) pageLinks(vm *fleet.VM) []linkView {
	at := "/vms/" + url.PathEscape(vm.Name)
	list := []linkView{
		v.linkTo("edit", at+"/edit", "pencil", access.Edit, vm),
		v.linkTo("definition", at+"/definition", "text", access.Edit, vm),
	}
	if _, has := v.s.opts.Fleet.(fleet.Logs); has {
		list = append(list, v.linkTo("log", at+"/history#vmlog", "console", access.Edit, vm))
	}
	return append(list, v.copyLinks(vm)...)
}

// vmParts returns the changing parts of the page.
func (v visit) vmParts(name string, events []fleet.Event) ([]part, error) {
	vm, err := v.s.opts.Fleet.Get(name)
	if err != nil {
		return nil, err
	}
	if err := cmp.Or(v.checkVerb(access.View, vm), v.mayUse(access.PageVMs)); err != nil {
		return nil, err
	}
	view := v.vmView(vm, events)
	return v.renderParts(map[string]any{
		"vmhead": view.Head, "vmalerts": view.Alerts, "vmfacts": view.Facts, "vmpicture": view.Picture,
		"vmsize": view.Size, "vmmedia": view.Media, "vmpending": view.Pending, "vmhistory": view.History,
		"vmdisks": view.Volumes, "vmsnapshots": view.Snapshots, "vmnetwork": view.Network,
		"vmautostart": view.Autostart,
	})
}

// renderParts executes templates. A template has the same name as the id of its element.
func (v visit) renderParts(views map[string]any) ([]part, error) {
	var list []part
	for id, view := range views {
		html, err := v.s.executeTemplate(id, view)
		if err != nil {
			return nil, err
		}
		list = append(list, part{id: id, html: html})
	}
	return list, nil
}

func (v visit) headOf(vm *fleet.VM) headView {
	sees := vm.State.Up() && v.whyRefused(access.AccessConsole, vm) == ""
	head := headView{
		words: v.words, Name: vm.Name, State: v.stateOf(vm), Since: vm.Since, Address: bestAddress(vm),
		SPICE: sees && vm.SPICE, Links: v.pageLinks(vm),
		Delete: v.linkTo("delete", "/vms/"+url.PathEscape(vm.Name)+"/delete", "delete", access.Delete, vm),
	}
	head.Delete.Class = "danger"
	visible := visibleActions(vm)
	head.Buttons = v.buttonsFor(vm, visible...)
	if visible[0] == fleet.Start || visible[0] == fleet.Resume {
		head.Buttons[0].Class = "primary"
	}
	head.More = v.buttonsFor(vm, otherActions(vm)...)
	if v.s.opts.Fleet.Storage() != nil {
		head.More = append(head.More, v.snapshotButton(vm))
	}
	return head
}

// snapshotButton returns the button that creates a snapshot of a VM.
func (v visit) snapshotButton(vm *fleet.VM) button {
	return button{
		Path: "/vms/" + url.PathEscape(vm.Name) + "/snapshot", ID: "snapshot-" + vm.Name, Label: v.T("do.snapshot"),
		Icon: v.Icon("disc"), Refused: v.whyRefused(access.Edit, vm),
	}
}

func (v visit) alertsOf(vm *fleet.VM) alertsView {
	a := alertsView{words: v.words, Problems: vm.Problems, Level: "info"}
	switch {
	case vm.State == fleet.Failed || vm.State == fleet.Unmanaged:
		a.Why, a.Level = vm.Message, "bad"
	case vm.State != fleet.Running:
		a.Why = vm.Message
	}
	if m := vm.Migration; m != nil {
		a.Why = strings.TrimSuffix(v.T("vm.moving", m.From, cmp.Or(m.To, "…"), m.Progress)+": "+m.Message, ": ")
	}
	if a.Why == "" && vm.State == fleet.Failed {
		a.Why = vm.Reason
	}
	if vm.Migration == nil {
		a.Advice = vm.Advice
	}
	a.Activity = vm.Activity
	return a
}

func (v visit) factsOf(vm *fleet.VM) factsView {
	f := factsView{words: v.words}
	add := func(key string, values ...valueView) {
		values = slices.DeleteFunc(values, func(v valueView) bool { return v.Text == "" && v.Time.IsZero() })
		if len(values) > 0 {
			f.Facts = append(f.Facts, factView{v.T(key), values})
		}
	}
	add("column.type", valueView{Text: vm.Type})
	add("vm.policy", valueView{Text: vm.RunPolicy})
	add("vm.os", valueView{Text: vm.OS})
	if vm.State.Up() {
		add("vm.started", valueView{Time: vm.Started})
	}
	if vm.Addresses != nil {
		best := vm.Addresses[0]
		add("column.address", valueView{Text: best.Address, Copy: best.Address, Code: true},
			valueView{Text: v.reachText(best)})
	}
	add("vm.ssh", valueView{Text: vm.SSH, Copy: vm.SSH, Code: true})
	add("column.node", valueView{Text: vm.Node})
	add("vm.user", valueView{Text: vm.User})
	add("vm.viewer", v.viewerValues(vm)...)
	for _, d := range vm.Details {
		add("detail."+d.Key, valueView{Text: d.Value})
	}
	add("vm.file", valueView{Text: vm.File, Code: true})
	if vm.File != "" && vm.State == fleet.Failed {
		command := "vmrunner log " + vm.Name
		add("vm.log", valueView{Text: command, Copy: command, Code: true})
	}
	return f
}

func (v visit) networkOf(vm *fleet.VM) networkView {
	n := networkView{
		words: v.words, Name: vm.Name, Refused: v.whyRefused(access.Edit, vm), SSH: vm.SSH, Cards: vm.Cards,
	}
	if all, can := v.s.opts.Fleet.(fleet.Cards); can {
		n.Networks = all.Networks()
	}
	for _, a := range vm.Addresses {
		n.Addresses = append(n.Addresses, addressView{a.Address, v.reachText(a)})
	}
	return n
}

// reachText describes from where an address reaches the guest, and where the address comes from.
func (v visit) reachText(a fleet.Address) string {
	var all []string
	for _, p := range a.Ports[:min(len(a.Ports), mostPorts)] {
		text := fmt.Sprintf("%d → %d", p.Port, p.Guest)
		if !p.TCP {
			text += "/udp"
		}
		all = append(all, text)
	}
	if len(a.Ports) > mostPorts {
		all = append(all, "…")
	}
	switch a.From {
	case "Host", "Pod", "Unknown":
		all = append(all, v.T("reach."+a.From))
	}
	if a.Claimed {
		all = append(all, v.T("reach.claimed"))
	}
	return strings.Join(all, ", ")
}

// mostPorts is how many ports of an address are shown.
const mostPorts = 16

// mostViewers is how many viewers are shown.
const mostViewers = 20

// viewerValues lists the viewers of a VM's screen and console, with their modes.
func (v visit) viewerValues(vm *fleet.VM) (values []valueView) {
	for i, viewer := range vm.Viewers {
		if i == mostViewers {
			return append(values, valueView{Text: v.T("viewer.more", len(vm.Viewers)-i)})
		}
		does := "viewer.types"
		if viewer.Watches {
			does = "viewer.watches"
		}
		values = append(values, valueView{Text: v.T(does, v.T("viewer."+viewer.Kind), viewer.Who), Time: viewer.Since})
	}
	return values
}

func (v visit) pictureOf(vm *fleet.VM) pictureView {
	p := pictureView{words: v.words, Name: vm.Name}
	if vm.Screen && vm.State.Up() && v.whyRefused(access.AccessConsole, vm) == "" {
		p.Source = "/vms/" + url.PathEscape(vm.Name) + "/screenshot"
	}
	return p
}

func (v visit) sizeOf(vm *fleet.VM) sizeView {
	view := sizeView{
		words: v.words, Name: vm.Name, Refused: v.whyRefused(access.Resize, vm), CPUs: vm.CPUs,
		RAM: v.formatBytes(vm.RAM.Wanted), Effect: v.T("edit.atstart"),
	}
	if vm.State.Up() {
		view.Effect = v.T("vm.size.effect", vm.CPUs.Maximum, v.formatBytes(vm.RAM.Maximum))
	}
	if vm.CPUs.Now != 0 && vm.CPUs.Now != vm.CPUs.Wanted {
		view.CPUsNow = v.T("vm.nowis", vm.CPUs.Now)
	}
	if vm.RAM.Now != 0 && vm.RAM.Now != vm.RAM.Wanted {
		view.RAMNow = v.T("vm.nowis", v.formatBytes(vm.RAM.Now))
	}
	return view
}

func (v visit) mediaOf(vm *fleet.VM) mediaView {
	view := mediaView{words: v.words, Name: vm.Name, Refused: v.whyRefused(access.Edit, vm), Drives: vm.Drives}
	if all := v.s.opts.Fleet.Attachments(); all != nil && len(vm.Drives) > 0 && view.Refused == "" {
		view.Media = all.Media()
	}
	return view
}

func (v visit) pendingOf(vm *fleet.VM) pendingView {
	p := pendingView{words: v.words, Changes: vm.RestartAwaitingChanges}
	if vm.State.Up() {
		p.Buttons = v.buttonsFor(vm, fleet.Restart)
		p.Buttons[0].ID = "pending-restart"
	}
	return p
}
