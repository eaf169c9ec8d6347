package web

import (
	"errors"
	"net/http"
	"net/url"
	"slices"
	"time"

	"vmop/manager/access"
	"vmop/manager/web/fleet"
)

// listView is the page with the list of VMs.
type listView struct {
	frame
	Query   query
	Sort    string // as in the address
	Totals  totalsView
	Columns []columnView
	Rows    []rowView
	Pager   pagerView
	// Empty reports that there are no VMs at all. EmptyHint is the key of the text about what to do next.
	Empty                   bool
	EmptyHint, EmptyCommand string
	// New links to the form for a new VM.
	New linkView
	// OneUser is as in rowView.
	OneUser bool
}

type columnView struct {
	Name, Text, Href, Arrow string
	Order                   string // for aria-sort
	Optional                bool
}

// totalsView contains totals over all VMs.
type totalsView struct {
	words
	Running, All int
	CPUs         int64
	RAM          string
	Charts       []chartView
}

// rowView is a VM in the list.
type rowView struct {
	words
	Name            string
	Screen, Console bool
	Restart         string // changes that need a restart
	State           stateView
	Why             string
	Since           time.Time
	CPUs, RAM       string
	Node            string
	Address         string
	Type, UsedBy    string
	Buttons         []button
	// OneUser shows the running screens, and omits columns that several users need.
	OneUser bool
}

// pagerView links to the other pages of the list.
type pagerView struct {
	words
	Many, Searching bool
	From, To, All   int
	Previous, Next  string
}

// columns are the columns of the list in order.
var columns = []string{"name", "state", "since", "cpus", "ram", "node", "address", "type", "user"}

// shownColumns returns the columns of this server's list.
func (s *Server) shownColumns() []string {
	if !s.opts.OneUser {
		return columns
	}
	return slices.DeleteFunc(slices.Clone(columns), func(c string) bool { return c == "node" || c == "user" })
}

func (s *Server) getList(w http.ResponseWriter, r *http.Request) error {
	v, q := s.visitOf(r), parseQuery(r.URL.Query())
	view := v.newListView(q)
	view.Live, view.Here = "/live?"+q.encodeQuery(), "/"
	if view.Empty {
		view.Live += "&" + emptyKey + "=1"
	}
	return s.showPage(w, http.StatusOK, "list", view)
}

// newListView returns the list for a query.
func (v visit) newListView(q query) listView {
	present := v.s.opts.Fleet.Outline()
	if !q.needsNamesOnly() && len(present) > 0 && present[0].Brief {
		present = v.s.opts.Fleet.List()
	}
	visible := v.visibleOf(present)
	all, page := q.chooseVMs(visible)
	view := listView{
		frame: v.newFrame(v.T("list.title")), Query: q, Sort: sortKey(q),
		Totals:  v.listTotals(visible, len(visible) == len(present)),
		Columns: v.listColumns(q), Pager: v.newPagerView(q, len(all)), Empty: len(visible) == 0,
		EmptyHint: "empty.hint", EmptyCommand: v.s.opts.FirstStep,
		New: v.linkTo("new", "/new", "plus", access.Create, &fleet.VM{}), OneUser: v.s.opts.OneUser,
	}
	view.New.Class = "primary"
	for _, vm := range v.s.opts.Fleet.Whole(page) {
		view.Rows = append(view.Rows, v.listRow(vm))
	}
	return view
}

func sortKey(q query) string {
	v, _ := url.ParseQuery(query{Sort: q.Sort, Down: q.Down}.encodeQuery())
	if s := v.Get("sort"); s != "" {
		return s
	}
	return "name"
}

func (v visit) listColumns(q query) []columnView {
	shown := v.s.shownColumns()
	list := make([]columnView, len(shown))
	for i, name := range shown {
		c := columnView{
			Name: name, Text: v.T("column." + name), Href: "/?" + q.sortedBy(name).encodeQuery(),
			Optional: i > 1,
		}
		switch {
		case q.Sort == name && q.Down:
			c.Order, c.Arrow = "descending", " ▾"
		case q.Sort == name:
			c.Order, c.Arrow = "ascending", " ▴"
		}
		list[i] = c
	}
	return list
}

func (v visit) listRow(vm *fleet.VM) rowView {
	up := vm.State.Up()
	sees := up && v.whyRefused(access.AccessConsole, vm) == ""
	row := rowView{
		words: v.words, Name: vm.Name, Screen: sees && vm.Screen, Console: sees && vm.Console, State: v.stateOf(vm),
		Since: vm.Since, CPUs: v.formatAmount(vm.CPUs), RAM: v.formatMemory(vm.RAM), Node: vm.Node, Type: vm.Type,
		UsedBy: usedBy(vm), Address: bestAddress(vm),
		Buttons: v.buttonsFor(vm, firstAction(vm)), OneUser: v.s.opts.OneUser,
	}
	if vm.State != fleet.Running {
		row.Why = vm.Message
	}
	if len(vm.RestartAwaitingChanges) > 0 && up {
		row.Restart = v.T("list.restart.title", len(vm.RestartAwaitingChanges))
	}
	return row
}

// listTotals returns totals over VMs. everything reports whether vms are all VMs.
func (v visit) listTotals(vms []*fleet.VM, everything bool) totalsView {
	t := totalsView{words: v.words, All: len(vms)}
	for _, vm := range vms {
		if vm.State.Up() {
			t.Running++
		}
	}
	use := fleet.UseOf(vms)
	t.CPUs, t.RAM = use.CPUs, v.formatBytes(use.RAM)
	if everything { // the series covers all VMs
		t.Charts = v.drawCharts()
	}
	return t
}

func (v visit) newPagerView(q query, n int) pagerView {
	from := (q.Page-1)*pageSize + 1
	p := pagerView{
		words: v.words, Many: n > pageSize, Searching: q.Words != "", From: from, To: min(from+pageSize-1, n), All: n,
	}
	at := func(page int) string {
		q.Page = page
		return "/?" + q.encodeQuery()
	}
	here := q.Page
	if here > 1 {
		p.Previous = at(here - 1)
	}
	if here < q.countPages(n) {
		p.Next = at(here + 1)
	}
	return p
}

// liveView returns what the stream of a page must keep current.
func (s *Server) liveView(r *http.Request) *watched {
	name := r.URL.Query().Get("vm")
	w := &watched{end: func() {}}
	switch window := r.URL.Query().Get("window"); {
	case name != "" && window != "":
		w.parts = func() ([]part, error) { return s.visitOf(r).windowParts(name, window) }
	case name != "":
		w.parts = func() ([]part, error) {
			if err := s.visitOf(r).checkWindow(name, r.URL.Query()); err != nil {
				return nil, err
			}
			return s.visitOf(r).vmParts(name, w.events)
		}
		s.visitOf(r).listenToEvents(name, w)
	case r.URL.Query().Has("disks"):
		w.parts = func() ([]part, error) { return s.visitOf(r).diskParts() }
	case r.URL.Query().Has("pools"):
		w.parts = func() ([]part, error) { return s.visitOf(r).poolParts() }
	case r.URL.Query().Has("portal"):
		w.parts = func() ([]part, error) { return s.visitOf(r).portalParts() }
	default:
		q, empty := parseQuery(r.URL.Query()), r.URL.Query().Has(emptyKey)
		w.parts = func() ([]part, error) { return s.visitOf(r).listParts(q, empty) } // roles may have changed
	}
	return w
}

// emptyKey is a parameter of the stream for a page without VMs, which has no table.
const emptyKey = "empty"

// errOtherPage means that the page must be reloaded, because it has other parts now.
var errOtherPage = errors.New("the page has other parts now")

// listParts returns the changing parts of the list. empty means a page without VMs.
func (v visit) listParts(q query, empty bool) ([]part, error) {
	if err := v.mayUse(access.PageVMs); err != nil {
		return nil, err
	}
	view := v.newListView(q)
	if empty != view.Empty {
		return nil, errOtherPage
	}
	rows := part{id: "rows"}
	for _, row := range view.Rows {
		html, err := v.s.executeTemplate("row", row)
		if err != nil {
			return nil, err
		}
		rows.children = append(rows.children, part{id: "vm-" + row.Name, html: html})
	}
	var parts []part
	if !view.Empty {
		rows.html = rows.joinChildren(`<tbody id="rows">`, "</tbody>") // like the template "rows"
		parts = append(parts, rows)
	}
	for _, p := range []struct {
		id   string
		view any
	}{{"totals", view.Totals}, {"pager", view.Pager}} {
		html, err := v.s.executeTemplate(p.id, p.view)
		if err != nil {
			return nil, err
		}
		parts = append(parts, part{id: p.id, html: html})
	}
	return parts, nil
}
