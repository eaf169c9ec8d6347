package web

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"vmop/manager/access"
	"vmop/manager/web/fleet"
)

// poolRoutes returns the handlers of pages about pools.
func (s *Server) poolRoutes() map[string]pageFunc {
	return map[string]pageFunc{
		"GET /pools":               s.getPools,
		"POST /pools/{pool}/claim": s.postClaim,
		"POST /vms/{vm}/release":   s.postRelease,
	}
}

// decidePool decides whether the visitor has a permission for a pool.
func (v visit) decidePool(verb access.Verb, pool string) access.Decision {
	return v.s.opts.Visitors.DecidePool(v.ctx, v.who, verb, pool)
}

// allowedPools returns the pools that the visitor has a permission for.
func (v visit) allowedPools(verb access.Verb) (all []*fleet.Pool) {
	from := v.s.opts.Fleet.Pools()
	if from == nil {
		return nil
	}
	for _, p := range from.Pools() {
		if v.decidePool(verb, p.Name).Allowed {
			all = append(all, p)
		}
	}
	return all
}

// checkPool returns a pool if the visitor has a permission for it. For an invisible pool the error is the same as for a
// missing pool.
func (v visit) checkPool(verb access.Verb, name string) (*fleet.Pool, error) {
	if from := v.s.opts.Fleet.Pools(); from != nil && v.decidePool(access.View, name).Allowed {
		for _, p := range from.Pools() {
			if p.Name != name {
				continue
			}
			if d := v.decidePool(verb, name); !d.Allowed {
				return nil, forbidden{d}
			}
			return p, nil
		}
	}
	return nil, errNoPool
}

// A poolCard is a pool in the portal, for a visitor without a VM of the pool.
type poolCard struct {
	words
	Name    string
	Text    string
	Buttons []button
}

// poolCards returns the visible pools that the visitor has no VM from.
func (v visit) poolCards() (cards []poolCard) {
	for _, p := range v.allowedPools(access.View) {
		if p.Of(v.who.User) != "" {
			continue
		}
		c := poolCard{words: v.words, Name: p.Name, Text: v.T("pool.free", p.Available)}
		claim := button{
			Path: "/pools/" + url.PathEscape(p.Name) + "/claim", Action: fleet.Start, ID: "claim-" + p.Name,
			Label: v.T("pool.claim"), Icon: v.Icon("play"), Class: "primary",
		}
		if d := v.decidePool(access.Start, p.Name); !d.Allowed {
			claim.Refused = v.reasonText(d)
		}
		if p.Available == 0 {
			c.Text = v.nextFree(p)
			if claim.Refused == "" {
				claim.Refused = c.Text
			}
		}
		c.Buttons = []button{claim}
		cards = append(cards, c)
	}
	return cards
}

// nextFree returns a message that no VM of a pool is free, with the time when a VM may become free, if known.
func (v visit) nextFree(p *fleet.Pool) string {
	var next time.Time
	for _, m := range p.Members {
		if m.State == "retained" && (next.IsZero() || m.Assigned.Until.Before(next)) {
			next = m.Assigned.Until
		}
	}
	if next.IsZero() {
		return v.T("pool.none")
	}
	return v.T("pool.none.until", next.UTC().Format("2006-01-02 15:04 UTC"))
}

// releaseButton returns the button to release a VM, for its user and for administrators of its pool; nil for other
// visitors.
func (v visit) releaseButton(vm string, a *fleet.Assigned) *button {
	if a == nil || a.User != v.who.User && !v.decidePool(access.Edit, a.Pool).Allowed {
		return nil
	}
	b := &button{
		Path: "/vms/" + url.PathEscape(vm) + "/release", ID: "release-" + vm, Label: v.T("pool.release"),
		Icon: v.Icon("move"), Question: v.T("ask.release", vm, a.User),
	}
	if a.User == v.who.User {
		b.Question = v.T("ask.giveback", vm)
	}
	return b
}

// poolsView is the page of pools, for their administrators.
type poolsView struct {
	frame
	Table poolTable
}

// poolTable is the changing part of the page.
type poolTable struct {
	words
	Pools []poolView
}

// A poolView is a pool with its VMs.
type poolView struct {
	*fleet.Pool

	Counts string
	Rows   []poolRow
}

// A poolRow is a VM of a pool.
type poolRow struct {
	fleet.PoolMember

	Text    string
	Release []button
}

func (s *Server) getPools(w http.ResponseWriter, r *http.Request) error {
	v := s.visitOf(r)
	if err := v.mayUse(access.PageVMs); err != nil {
		return err
	}
	view := poolsView{v.newFrame(v.T("pools.title")), v.poolTable()}
	view.Live, view.Here = "/live?pools=1", "/pools"
	return s.showPage(w, http.StatusOK, "pools", view)
}

// poolParts returns the changing part of the page.
func (v visit) poolParts() ([]part, error) {
	if err := v.mayUse(access.PageVMs); err != nil {
		return nil, err
	}
	return v.renderParts(map[string]any{"pooltable": v.poolTable()})
}

func (v visit) poolTable() poolTable {
	table := poolTable{words: v.words}
	for _, p := range v.allowedPools(access.Edit) {
		shown := poolView{Pool: p, Counts: v.T("pools.counts", p.VMs, p.Free, p.Assigned, p.InUse, p.Retained)}
		for _, m := range p.Members {
			row := poolRow{PoolMember: m, Text: v.T("pool.state." + m.State)}
			if b := v.releaseButton(m.VM, m.Assigned); b != nil {
				row.Release = append(row.Release, *b)
			}
			shown.Rows = append(shown.Rows, row)
		}
		table.Pools = append(table.Pools, shown)
	}
	return table
}

// claimFromPool assigns a VM of a pool to the visitor.
func (s *Server) claimFromPool(r *http.Request) (vm string, err error) {
	v, name := s.visitOf(r), r.PathValue("pool")
	if err := v.mayUseAny(); err != nil {
		return "", err
	}
	p, err := v.checkPool(access.Start, name)
	if err != nil {
		return "", err
	}
	if vm, err = s.opts.Fleet.Pools().Claim(r.Context(), v.who.User, name); errors.Is(err, fleet.ErrNotFound) {
		err = errNoPool
	}
	if err != nil && p.Available == 0 {
		err = fleet.Refusal(v.nextFree(p))
	}
	s.recordOf(r, "pool", name, fmt.Sprintf("claim %s", vm), err)
	return vm, err
}

// releaseToPool releases a VM of the visitor, or of a pool that the visitor administers.
func (s *Server) releaseToPool(r *http.Request) error {
	v := s.visitOf(r)
	if err := v.mayUseAny(); err != nil {
		return err
	}
	vm, err := v.requestedVM(r, access.View)
	if err != nil {
		return err
	}
	if s.opts.Fleet.Pools() == nil || vm.Assigned == nil {
		return fleet.Refusal(v.T("pool.notassigned"))
	}
	if d := v.decidePool(access.Edit, vm.Assigned.Pool); vm.Assigned.User != v.who.User && !d.Allowed {
		return forbidden{d}
	}
	err = s.opts.Fleet.Pools().Release(r.Context(), v.who.User, vm.Name)
	s.recordAction(r, vm.Name, "release", err)
	return err
}

func (s *Server) postClaim(w http.ResponseWriter, r *http.Request) error {
	if err := parseForm(w, r); err != nil {
		return err
	}
	if _, err := s.claimFromPool(r); err != nil {
		return err
	}
	return s.answerChange(w, r, "/portal")
}

func (s *Server) postRelease(w http.ResponseWriter, r *http.Request) error {
	if err := parseForm(w, r); err != nil {
		return err
	}
	if !fromScript(r) && r.PostForm.Get("sure") == "" {
		v := s.visitOf(r)
		return s.askConfirmation(w, r, v.T("pool.release"), v.T("ask.giveback", r.PathValue("vm")))
	}
	if err := s.releaseToPool(r); err != nil {
		return err
	}
	return s.answerChange(w, r, "/pools")
}

// poolFor returns a pool as the visitor may know it. Only administrators see other users.
func (v visit) poolFor(p *fleet.Pool) *fleet.Pool {
	if v.mayUse(access.PageVMs) == nil && v.decidePool(access.Edit, p.Name).Allowed {
		return p
	}
	known := &fleet.Pool{Name: p.Name, Available: p.Available}
	for _, m := range p.Members {
		if m.Assigned != nil && m.Assigned.User == v.who.User {
			known.Members = append(known.Members, m)
		}
	}
	return known
}

// apiPools answers with the pools.
func (s *Server) apiPools(w http.ResponseWriter, r *http.Request) error {
	v := s.visitOf(r)
	if err := v.mayUseAny(); err != nil {
		return err
	}
	list := struct {
		Items []*fleet.Pool `json:"items"`
	}{[]*fleet.Pool{}}
	for _, p := range v.allowedPools(access.View) {
		list.Items = append(list.Items, v.poolFor(p))
	}
	return answerJSON(w, list)
}

func (s *Server) apiPool(w http.ResponseWriter, r *http.Request) error {
	v := s.visitOf(r)
	if err := v.mayUseAny(); err != nil {
		return err
	}
	p, err := v.checkPool(access.View, r.PathValue("pool"))
	if err != nil {
		return err
	}
	return answerJSON(w, v.poolFor(p))
}

// apiClaim answers with the name of the VM.
func (s *Server) apiClaim(w http.ResponseWriter, r *http.Request) error {
	vm, err := s.claimFromPool(r)
	if err != nil {
		return err
	}
	return answerJSON(w, struct {
		VM string `json:"vm"`
	}{vm})
}

func (s *Server) apiRelease(w http.ResponseWriter, r *http.Request) error {
	if err := s.releaseToPool(r); err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}
