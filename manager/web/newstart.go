package web

import (
	"cmp"
	"net/http"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strconv"
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

// usualImage is the suggested image.
const usualImage = "debian/12"

// suggestStart fills in an image, and the user who logs in to its guest, if the fleet has images with names.
func (n *newVM) suggestStart() {
	if !slices.ContainsFunc(n.offer.Known, func(k fleet.KnownImage) bool { return k.Name == usualImage }) {
		return
	}
	n.values.Set(originField, fromKnown+usualImage)
	n.values.Set("user", n.offer.User)
	n.values.Set("key", strings.Join(n.offer.Keys, "\n"))
}

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
			text = n.T("new.origin.cached", k.Name, n.formatBytes(k.Size))
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

// suggestName replaces a name that the form has suggested, or no name on the first visit.
func (n *newVM) suggestName() {
	name := n.values.Get("name")
	if name != n.suggested {
		n.suggested = ""
		return
	}
	origin := n.values.Get(originField)
	base := strings.TrimPrefix(origin, fromKnown)
	if origin == fromFile || origin == fromCD {
		base = path.Base(strings.ReplaceAll(n.values.Get(origin), "\\", "/"))
		base = strings.TrimSuffix(base, path.Ext(base))
	}
	base = regexp.MustCompile(`[^a-z0-9]+`).ReplaceAllString(strings.ToLower(base), "-")
	base = cmp.Or(strings.Trim(base[:min(len(base), 40)], "-"), "vm")
	n.suggested = base
	for i := 2; n.isTaken(n.suggested); i++ {
		n.suggested = base + "-" + strconv.Itoa(i)
	}
	n.values.Set("name", n.suggested)
}

// isTaken reports whether a VM has this name.
func (n *newVM) isTaken(name string) bool {
	_, err := n.s.opts.Fleet.Get(name)
	return err == nil
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
