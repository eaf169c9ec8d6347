package web

import (
	"net/http"
	"strings"

	"vmop/manager/access"
	"vmop/manager/web/fleet"
)

// cardsOf returns the VM and the interface for a request that changes its network cards.
func (s *Server) cardsOf(r *http.Request) (visit, *fleet.VM, fleet.Cards, error) {
	v := s.visitOf(r)
	all, can := s.opts.Fleet.(fleet.Cards)
	if !can {
		return v, nil, nil, errNoPage
	}
	vm, err := v.requestedVM(r, access.Edit)
	return v, vm, all, err
}

// postCard returns the handler of a form that changes a network card.
func (s *Server) postCard(
	action string, do func(v visit, all fleet.Cards, vm string, r *http.Request) error,
) pageFunc {
	return func(w http.ResponseWriter, r *http.Request) error {
		if err := parseForm(w, r); err != nil {
			return err
		}
		v, vm, all, err := s.cardsOf(r)
		if err != nil {
			return err
		}
		return s.finishAction(w, r, vm, action, do(v, all, vm.Name, r))
	}
}

func attachCard(v visit, all fleet.Cards, vm string, r *http.Request) error {
	card := fleet.Card{Network: r.PostForm.Get("network"), Bridge: strings.TrimSpace(r.PostForm.Get("bridge"))}
	return all.AttachCard(r.Context(), v.who.User, vm, card)
}

func setLink(v visit, all fleet.Cards, vm string, r *http.Request) error {
	return all.SetLink(r.Context(), v.who.User, vm, r.PostForm.Get("card"), r.PostForm.Get("up") == "true")
}

// postDetachCard removes a network card after a confirmation.
func (s *Server) postDetachCard(w http.ResponseWriter, r *http.Request) error {
	if err := parseForm(w, r); err != nil {
		return err
	}
	v, vm, all, err := s.cardsOf(r)
	card := r.PostForm.Get("card")
	switch {
	case err != nil:
		return err
	case !fromScript(r) && r.PostForm.Get("sure") == "":
		return s.askConfirmation(w, r, v.T("net.remove"), v.T("ask.removecard", card))
	}
	return s.finishAction(w, r, vm, "detach a network card", all.DetachCard(r.Context(), v.who.User, vm.Name, card))
}

// apiAttachCard adds a network card to a VM.
func (s *Server) apiAttachCard(w http.ResponseWriter, r *http.Request) error {
	v, vm, all, err := s.cardsOf(r)
	if err != nil {
		return err
	}
	var wanted struct {
		Network string `json:"network"`
		Bridge  string `json:"bridge"`
	}
	if err := bodyJSON(w, r, &wanted); err != nil {
		return err
	}
	return s.carryOutAPI(w, r, vm, "attach a network card", func() error {
		card := fleet.Card{Network: wanted.Network, Bridge: wanted.Bridge}
		return all.AttachCard(r.Context(), v.who.User, vm.Name, card)
	})
}

// apiDetachCard removes a network card from a VM.
func (s *Server) apiDetachCard(w http.ResponseWriter, r *http.Request) error {
	v, vm, all, err := s.cardsOf(r)
	if err != nil {
		return err
	}
	return s.carryOutAPI(w, r, vm, "detach a network card", func() error {
		return all.DetachCard(r.Context(), v.who.User, vm.Name, r.PathValue("card"))
	})
}

// apiLink plugs in or unplugs the cable of a network card.
func (s *Server) apiLink(w http.ResponseWriter, r *http.Request) error {
	v, vm, all, err := s.cardsOf(r)
	if err != nil {
		return err
	}
	var wanted struct {
		Up *bool `json:"up"`
	}
	if err := bodyJSON(w, r, &wanted); err != nil {
		return err
	}
	if wanted.Up == nil {
		return badRequest("up is missing: set it to true or false")
	}
	return s.carryOutAPI(w, r, vm, "set a link", func() error {
		return all.SetLink(r.Context(), v.who.User, vm.Name, r.PathValue("card"), *wanted.Up)
	})
}
