package web

import (
	"net/http"
	"net/url"
	"time"

	"vmop/manager/access"
	"vmop/manager/web/fleet"
)

// portalView is the page with the visitor's VMs as cards. A card shows only what a user needs: no definition, no node,
// and no messages of the cluster, QEMU or the guest.
type portalView struct {
	frame
	Cards cardsView
}

// cardsView is the changing part of the portal.
type cardsView struct {
	words
	Cards []cardView
	Pools []poolCard
}

// A cardView is a VM in the portal.
type cardView struct {
	words
	Name  string
	State stateView
	Since time.Time
	// Busy reports that the VM is changing to its wanted state.
	Busy bool
	// Failed reports that an administrator must look at the VM.
	Failed bool
	// Badge is the icon of the guest's operating system, OS its name.
	Badge, OS string
	// UsedBy is another user of its screen, console or desktop.
	UsedBy string
	// Pool is the pool that assigned the VM to the visitor; "" if it isn't assigned. Until is how long it is kept if it
	// isn't used.
	Pool    string
	Until   time.Time
	Windows []windowLink
	Buttons []button
}

// A windowLink opens the screen or console of a VM.
type windowLink struct {
	Kind, Text, Href, Target, Icon string
	// Refused is why it can't be opened; "" if it can.
	Refused string
}

// forPage returns a handler that admits only visitors who may use a page.
func (s *Server) forPage(page access.Page, serve pageFunc) pageFunc {
	return func(w http.ResponseWriter, r *http.Request) error {
		if err := s.visitOf(r).mayUse(page); err != nil {
			return err
		}
		return serve(w, r)
	}
}

// pageFunc answers a request, or returns an error.
type pageFunc func(w http.ResponseWriter, r *http.Request) error

// mayUse returns an error if the visitor may not use a page.
func (v visit) mayUse(page access.Page) error {
	if v.s.opts.Visitors.MayUse(v.who, page) {
		return nil
	}
	return errNotYourPage
}

// getHome shows the list. Visitors who may not use it are redirected to the portal.
func (s *Server) getHome(w http.ResponseWriter, r *http.Request) error {
	v := s.visitOf(r)
	if v.mayUse(access.PageVMs) == nil {
		return s.getList(w, r)
	}
	if err := v.mayUse(access.PagePortal); err != nil {
		return err
	}
	http.Redirect(w, r, "/portal", http.StatusSeeOther)
	return nil
}

func (s *Server) getPortal(w http.ResponseWriter, r *http.Request) error {
	v := s.visitOf(r)
	view := portalView{v.newFrame(v.T("portal.title")), v.portalCards()}
	view.Live = "/live?portal=1"
	view.Here = "/portal"
	return s.showPage(w, http.StatusOK, "portal", view)
}

// portalParts returns the changing parts of the portal.
func (v visit) portalParts() ([]part, error) {
	if err := v.mayUse(access.PagePortal); err != nil {
		return nil, err
	}
	view := v.portalCards()
	whole, err := v.s.executeTemplate("cards", view)
	if err != nil {
		return nil, err
	}
	cards := part{id: "cards", html: whole}
	for _, pool := range view.Pools {
		html, err := v.s.executeTemplate("poolcard", pool)
		if err != nil {
			return nil, err
		}
		cards.children = append(cards.children, part{id: "pool-" + pool.Name, html: html})
	}
	for _, card := range view.Cards {
		html, err := v.s.executeTemplate("card", card)
		if err != nil {
			return nil, err
		}
		cards.children = append(cards.children, part{id: "card-" + card.Name, html: html})
	}
	return []part{cards}, nil
}

// portalCards returns the cards of the visible VMs and pools.
func (v visit) portalCards() cardsView {
	view := cardsView{words: v.words, Pools: v.poolCards()}
	for _, vm := range v.visibleVMs() {
		view.Cards = append(view.Cards, v.portalCard(vm))
	}
	return view
}

func (v visit) portalCard(vm *fleet.VM) cardView {
	c := cardView{
		words: v.words, Name: vm.Name, State: v.stateOf(vm), Since: vm.Since, Busy: isChanging(vm),
		Failed: vm.State == fleet.Failed, Badge: systemIcon(vm), OS: vm.OS,
	}
	if user := usedBy(vm); user != v.who.User {
		c.UsedBy = user
	}
	start := fleet.Start
	if vm.Can[fleet.Resume] {
		start = fleet.Resume
	}
	c.Buttons = v.buttonsFor(vm, start, fleet.Stop, fleet.Reset) // always the same buttons, so that they don't move
	if a := vm.Assigned; a != nil && a.User == v.who.User {
		c.Pool, c.Until = a.Pool, a.Until
		c.Buttons = append(c.Buttons, *v.releaseButton(vm.Name, a))
	}
	refused := v.whyRefused(access.AccessConsole, vm)
	for _, w := range []struct {
		kind string
		has  bool
	}{{"screen", vm.Screen}, {"console", vm.Console}} {
		link := windowLink{
			Kind: w.kind, Text: v.T("do." + w.kind), Href: "/vms/" + url.PathEscape(vm.Name) + "/" + w.kind,
			Target: w.kind + "-" + vm.Name, Icon: w.kind, Refused: refused,
		}
		switch {
		case refused == "" && !vm.State.Up():
			link.Refused = v.T("refused.state", v.T("state."+string(vm.State)))
		case refused == "" && !w.has:
			link.Refused = v.T("portal.lacks." + w.kind)
		}
		c.Windows = append(c.Windows, link)
	}
	return c
}

// isChanging reports whether a VM is changing to its wanted state.
func isChanging(vm *fleet.VM) bool {
	switch vm.State {
	case fleet.Stopped:
		return vm.Wanted
	case fleet.Running, fleet.Paused:
		return !vm.Wanted
	}
	return vm.State.Changing()
}

// badges are the operating systems with their own icon, by ID in os-release.
var badges = map[string]string{
	"almalinux": "alma", "alma": "alma", "arch": "arch", "debian": "debian", "fedora": "fedora", "ubuntu": "ubuntu",
	"mswindows": "windows", "windows": "windows", "freebsd": "bsd", "openbsd": "bsd", "netbsd": "bsd",
	"alpine": "alpine", "opensuse": "suse", "opensuse-leap": "suse", "opensuse-tumbleweed": "suse", "sles": "suse",
	"rhel": "redhat", "centos": "redhat", "rocky": "redhat",
}

// systemIcon returns the icon of a guest's operating system.
func systemIcon(vm *fleet.VM) string {
	switch icon := badges[vm.OSID]; {
	case icon != "":
		return "os-" + icon
	case vm.OSID != "":
		return "os-linux" // systems with os-release
	}
	return "os-unknown"
}
