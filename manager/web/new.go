package web

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"vmop/cloudinit"
	"vmop/manager/access"
	"vmop/manager/web/fleet"
)

// yes is the value of a ticked box.
const yes = "yes"

// newFields are the form fields that an address can also contain. Passwords are excluded. Fields for options of the VM
// type begin with optionField.
var newFields = []string{
	"name", "type", "vmclass", "share", "policy", "cpus", "ram", "disk", "class", "from", "url", "checksum",
	"drive", "cd", originField, fromFile, "network", "screen", "user", "key", "withpassword", "start", dataField,
}

const (
	optionField = fleet.FieldOption + "."
	// dataField is the choice of what to do with the data of a deleted VM.
	dataField = "data"
)

// knownFields returns the values of the form's fields.
func knownFields(from url.Values) url.Values {
	values := url.Values{}
	for name, value := range from {
		if slices.Contains(newFields, name) || strings.HasPrefix(name, optionField) {
			values[name] = value
		}
	}
	if strings.Contains(values.Get("key"), privateKey) {
		values.Set("key", privateKey) // enough to report the error, without the key itself
	}
	return values
}

// privateKey occurs in the file of an SSH private key.
const privateKey = "PRIVATE KEY"

// mayCreate returns an error if the visitor may not create VMs.
func (v visit) mayCreate() error {
	if d := v.s.opts.Visitors.Decide(v.ctx, v.who, access.Create, &fleet.VM{}); !d.Allowed {
		return forbidden{d}
	}
	return nil
}

// getNew shows the form, filled in from the address.
func (s *Server) getNew(w http.ResponseWriter, r *http.Request) error {
	v := s.visitOf(r)
	if err := v.mayCreate(); err != nil {
		return err
	}
	offer, err := s.opts.Fleet.Offer(r.Context())
	if err != nil {
		return err
	}
	n := &newVM{visit: v, offer: offer, suggestions: map[string]string{}, values: url.Values{
		"type": {offer.Type}, "screen": {yes}, "start": {yes},
	}}
	if offer.VMClasses != nil {
		n.values.Del("type") // the class sets it
	}
	query := knownFields(r.URL.Query())
	if query.Get("cd") != "" && query[originField] == nil {
		n.values.Set(originField, fromCD)
	}
	for name, value := range query {
		n.values[name] = value
	}
	if err := n.loadType(r.Context()); err != nil {
		return err
	}
	n.suggestAll(len(query) > 0)
	if err := n.readForm(r.Context()); err != nil {
		return err
	}
	if len(query) == 0 {
		n.faults = nil // nothing has been entered yet
	}
	return s.showPage(w, http.StatusOK, "new", n.formView())
}

// postNew checks the form, and creates the VM on request.
func (s *Server) postNew(w http.ResponseWriter, r *http.Request) error {
	if err := parseForm(w, r); err != nil {
		return err
	}
	v := s.visitOf(r)
	if err := v.mayCreate(); err != nil {
		return err
	}
	offer, err := s.opts.Fleet.Offer(r.Context())
	if err != nil {
		return err
	}
	n := &newVM{visit: v, offer: offer, suggestions: map[string]string{}, values: knownFields(r.PostForm)}
	if err := n.loadType(r.Context()); err != nil {
		return err
	}
	n.keepSuggestions(r.PostForm, r.PostForm.Get("do") != "create")
	password, do := r.PostForm.Get("password"), r.PostForm.Get("do")
	if password != "" {
		n.values.Set("withpassword", yes)
	}
	if do != "fields" {
		n.byHand(r.PostForm.Get("definition"), r.PostForm.Get("drafted"))
	}
	if err := n.readForm(r.Context()); err != nil {
		return err
	}
	switch {
	case do == "disk":
		n.moreDisks = true
	case do == "create" && len(n.faults) == 0 && n.check != nil:
		if err := n.createVM(w, r, password); err != nil {
			return err
		}
		if len(n.faults) == 0 {
			return s.answerChange(w, r, "/vms/"+url.PathEscape(n.draft.Name))
		}
	}
	code := http.StatusOK
	if do == "create" {
		code = http.StatusUnprocessableEntity
	} else if fromScript(r) && n.draft.Name == "" {
		delete(n.faults, fleet.FieldName) // not entered yet
	}
	return s.showPage(w, code, "new", n.formView())
}

// newVM is a VM that the form defines.
type newVM struct {
	visit
	offer  *fleet.Offer
	about  *fleet.VMType
	values url.Values
	// suggestions are the suggested values of fields that the user has not changed.
	suggestions map[string]string
	// typeFault is why the type can't be used; "" if it can.
	typeFault string
	// draft contains the values of the fields. faults are the errors by field; key "" is for the definition.
	draft  *fleet.Draft
	faults fieldFaults
	// text is the definition, from the draft or edited by hand. drafted is the digest of the definition that was
	// edited.
	text, drafted string
	hand          bool
	// placed are the errors in a definition that was edited by hand.
	placed fleet.Faults
	check  *fleet.Check
	// diskRows are the form rows of the draft's disks. moreDisks adds a row.
	diskRows  []int
	moreDisks bool
}

// fieldFaults are error texts by field.
type fieldFaults map[string][]string

func (f fieldFaults) addFault(field, text string) { f[field] = append(f[field], text) }

// textDigest identifies the text of a definition.
func textDigest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:16])
}

// unixLines converts CRLF line ends from a form to LF.
func unixLines(text string) string { return strings.ReplaceAll(text, "\r\n", "\n") }

// byHand uses a definition if it was edited by hand, that is, if its digest differs.
func (n *newVM) byHand(text, drafted string) {
	text = unixLines(text)
	if text != "" && textDigest(text) != drafted {
		n.text, n.drafted, n.hand = text, drafted, true
	}
}

// loadType gets the description of the VM type. It returns only errors of the server.
func (n *newVM) loadType(ctx context.Context) error {
	name := n.typeName()
	about, err := n.s.opts.Fleet.VMType(ctx, name)
	var refusal fleet.Refusal
	switch {
	case errors.As(err, &refusal):
		if name == n.values.Get("type") { // its class may allow the type for its VMs only
			n.typeFault = string(refusal)
		}
		about = &fleet.VMType{Name: name}
	case err != nil:
		return err
	}
	n.about = about
	return nil
}

// readForm makes the draft and the definition, and checks both. It returns only errors of the server.
func (n *newVM) readForm(ctx context.Context) error {
	n.faults = fieldFaults{}
	if n.typeFault != "" {
		n.faults.addFault(fleet.FieldType, n.typeFault)
	}
	n.readFields()
	if len(n.faults) > 0 && !n.hand {
		return n.readMore(ctx)
	}
	if n.draft.Name == "" {
		return nil
	}
	if !n.hand {
		text, err := n.s.opts.Fleet.Draft(ctx, n.draft)
		if err != nil {
			return n.noteRefusal(err)
		}
		n.text, n.drafted = text, textDigest(text)
	}
	check, err := n.s.opts.Fleet.Check(ctx, n.draft.Name, &fleet.Definition{Text: n.text})
	if err != nil {
		return n.noteRefusal(err)
	}
	if check.Faults != nil {
		return n.noteRefusal(check.Faults)
	}
	n.check = check
	return nil
}

// readMore checks the valid fields if others are invalid, so that the user sees all errors together. It replaces
// invalid values with acceptable ones for this check.
func (n *newVM) readMore(ctx context.Context) error {
	known, draft, rows := n.faults, n.draft, n.diskRows
	defer func() { n.draft, n.diskRows = draft, rows }()
	d := *draft
	n.draft, n.faults = &d, fieldFaults{}
	if known[fleet.FieldName] != nil {
		d.Name = "new-virtual-machine"
	}
	if known[fleet.FieldCPUs] != nil {
		d.CPUs = 0
	}
	if known[fleet.FieldRAM] != nil {
		d.RAM = 0
	}
	for field := range known {
		if strings.HasPrefix(field, fleet.FieldDisk) {
			d.Disks, n.diskRows = nil, nil
		}
	}
	text, err := n.s.opts.Fleet.Draft(ctx, &d)
	if err == nil {
		var check *fleet.Check
		check, err = n.s.opts.Fleet.Check(ctx, d.Name, &fleet.Definition{Text: text})
		if err == nil && check.Faults != nil {
			err = check.Faults
		}
	}
	if err != nil {
		err = n.noteRefusal(err)
	}
	for field, texts := range n.faults {
		if known[field] == nil && field != "" && field != fleet.FieldName {
			known[field] = texts
		}
	}
	n.faults = known
	return err
}

// noteRefusal records why a definition is refused; it returns other errors.
func (n *newVM) noteRefusal(err error) error {
	var faults fleet.Faults
	var refusal fleet.Refusal
	switch {
	case errors.As(err, &faults) && n.hand:
		n.placed = faults
		n.faults.addFault("", n.T("new.handfaults"))
	case errors.As(err, &faults):
		for _, f := range faults {
			field := n.fieldOf(f.Path)
			text := f.Message
			if field == "" && f.Path != "" {
				text = f.Path + ": " + text
			}
			n.faults.addFault(field, text)
		}
	case errors.As(err, new(fleet.Leftover)):
		n.faults.addFault(dataField, n.T("new.data.choose"))
	case errors.Is(err, fleet.ErrExists):
		n.faults.addFault(fleet.FieldName, n.T("new.exists", n.draft.Name))
	case errors.As(err, &refusal):
		n.faults.addFault("", string(refusal))
	default:
		return err
	}
	return nil
}

// createVM creates the VM, and starts it on request. The VM's page shows the reason of a failed start.
func (n *newVM) createVM(w http.ResponseWriter, r *http.Request, password string) error {
	text := n.text
	if strings.Contains(text, fleet.NewPassword) {
		if password == "" {
			n.faults.addFault("password", n.T("new.password.again"))
			return nil
		}
		hash, err := cloudinit.HashPassword(password)
		if err != nil {
			n.faults.addFault("password", n.T("new.password.wrong", cloudinit.LongestPassword))
			return nil
		}
		text = strings.ReplaceAll(text, fleet.NewPassword, hash)
	}
	name := n.draft.Name
	data, err := dataOf(n.values.Get(dataField))
	if err != nil {
		return err
	}
	if err := n.s.opts.Fleet.Create(r.Context(), n.who.User, name, text, data); err != nil {
		return n.noteRefusal(err)
	}
	n.s.recordAction(r, name, "create", nil)
	if n.values.Get("start") != yes {
		return nil
	}
	vm, err := n.s.opts.Fleet.Get(name)
	if err == nil {
		err = n.visit.checkVerb(access.Start, vm)
	}
	if err == nil {
		err = n.s.opts.Fleet.Do(r.Context(), n.who.User, name, fleet.Start)
		n.s.recordAction(r, name, string(fleet.Start), err)
	}
	if err == nil {
		return nil
	}
	if now, e := n.s.opts.Fleet.Get(name); e == nil && now.State == fleet.Failed {
		return nil // its page shows the reason
	}
	_, reason := n.s.explainError(r, err)
	text = n.T("new.notstarted", name, reason)
	if vm == nil || n.visit.checkVerb(access.View, vm) != nil || n.mayUse(access.PageVMs) != nil {
		return fleet.Refusal(text) // no page of the VM can show it
	}
	setNotice(w, name, text)
	return nil
}
