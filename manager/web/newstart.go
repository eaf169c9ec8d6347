package web

import (
	"net/http"
	"net/url"
	"slices"
	"strings"

	"vmop/manager/web/fleet"
)

// originField is the choice of what a new VM starts from: one of these values, or the name of an image after fromKnown.
const (
	originField = "origin"
	fromNothing = ""
	fromFile    = "file"
	fromCD      = "cd"
	fromKnown   = "image:"
)

// readOrigin parses what the VM starts from.
func (n *newVM) readOrigin() {
	if n.offer.Known == nil {
		return
	}
	origin := n.values.Get(originField)
	name, known := strings.CutPrefix(origin, fromKnown)
	isNamed := func(k fleet.KnownImage) bool { return k.Name == name }
	switch {
	case known && slices.ContainsFunc(n.offer.Known, isNamed):
		n.draft.Image = name
	case known:
		n.faults.addFault(originField, n.T("new.noimage", name))
	case origin == fromFile:
		if n.draft.Image = strings.TrimSpace(n.values.Get(fromFile)); n.draft.Image == "" {
			n.faults.addFault(fromFile, n.T("new.nofile"))
		}
	case origin == fromCD && n.draft.Medium == "":
		n.faults.addFault(fleet.FieldCD, n.T("new.nocd"))
	}
}

// originInputs returns the choice of what the VM starts from, and the field for a file.
func (n *newVM) originInputs() []inputView {
	if n.offer.Known == nil {
		return nil
	}
	in := n.inputField(originField, choiceInput)
	add := func(value, text string) {
		in.Choices = append(in.Choices, choiceView{value, text, value == in.Value})
	}
	for _, k := range n.offer.Known {
		text := n.T("new.origin.image", k.Name, k.Host)
		if k.Size > 0 {
			text = n.T("new.origin.cached", k.Name, n.formatBytes(k.Size), k.Host)
		}
		add(fromKnown+k.Name, text)
	}
	add(fromFile, n.T("new.origin.file"))
	add(fromCD, n.T("new.origin.cd"))
	add(fromNothing, n.T("new.origin.nothing"))
	if name, is := strings.CutPrefix(in.Value, fromKnown); is && in.Faults != nil {
		add(in.Value, name)
	}
	file := n.inputField(fromFile, textInput)
	in.Class, file.Class = "wide", "wide fororigin"
	return []inputView{in, file}
}

// noticeCookie contains a message for the next view of a VM's page, such as the reason of a failed start.
const noticeCookie = "notice"

// longestNotice is the maximum size of a message in a cookie, in bytes.
const longestNotice = 1500

// setNotice leaves a message for the next view of a VM's page.
func setNotice(w http.ResponseWriter, vm, text string) {
	text = url.QueryEscape(strings.ToValidUTF8(text[:min(len(text), longestNotice)], ""))
	http.SetCookie(w, &http.Cookie{
		Name: noticeCookie, Value: text, Path: "/vms/" + url.PathEscape(vm), MaxAge: 60, HttpOnly: true,
		SameSite: http.SameSiteLaxMode,
	})
}

// takeNotice returns and deletes the message for a VM's page.
func takeNotice(w http.ResponseWriter, r *http.Request, vm string) string {
	c, err := r.Cookie(noticeCookie)
	if err != nil {
		return ""
	}
	http.SetCookie(w, &http.Cookie{Name: noticeCookie, Path: "/vms/" + url.PathEscape(vm), MaxAge: -1})
	text, err := url.QueryUnescape(c.Value)
	if err != nil {
		return ""
	}
	return text
}
