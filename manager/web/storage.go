package web

import (
	"cmp"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"vmop/manager/access"
	"vmop/manager/web/fleet"
)

// diskRoutes returns the handlers of pages about disks and snapshots.
func (s *Server) diskRoutes() map[string]pageFunc {
	return map[string]pageFunc{
		"GET /disks":                       s.getDisks,
		"POST /disks":                      s.postDisk,
		"POST /disks/{kind}/{disk}/size":   s.postDiskSize,
		"GET /disks/{kind}/{disk}/delete":  s.getDiskDelete,
		"POST /disks/{kind}/{disk}/delete": s.postDiskDelete,
		"POST /disks/{kind}/{disk}/export": s.postExport,
		"GET /disks/{kind}/{disk}/export":  s.getExport,
		"POST /vms/{vm}/attach":            s.postAttach,
		"POST /vms/{vm}/detach":            s.postDetach,
		"POST /vms/{vm}/grow":              s.postGrow,
		"POST /vms/{vm}/export":            s.postExportDisk,
		"POST /vms/{vm}/cards":             s.postCard("attach a network card", attachCard),
		"POST /vms/{vm}/cards/detach":      s.postDetachCard,
		"POST /vms/{vm}/cards/link":        s.postCard("set a link", setLink),
		"POST /vms/{vm}/snapshot":          s.postSnapshot,
		"POST /vms/{vm}/restore":           s.postRestore,
		"POST /vms/{vm}/snapshot/delete":   s.postSnapshotDelete,
		"POST /vms/{vm}/autostart":         s.postAutostart,
		"GET /vms/{vm}/clone":              s.getClone,
		"POST /vms/{vm}/clone":             s.postClone,
		"GET /vms/{vm}/rename":             s.getRename,
		"POST /vms/{vm}/rename":            s.postRename,
	}
}

// disksView is the page with the disks and images that outlive VMs.
type disksView struct {
	frame
	Table diskTable
	New   []inputView
	// Room describes the folder of new files, and the free space there; "" if users don't see it.
	Room string
	// Fetch are the fields for fetching an image in advance; nil if that is impossible.
	Fetch []inputView
}

// diskTable is the changing part of the page.
type diskTable struct {
	words
	// Growing reports that the disks can grow.
	Growing bool
	Rows    []diskRow
}

// A diskRow is a disk or image with the possible actions.
type diskRow struct {
	volumeView
	ID, At, UsedBy string
	// Contents describes the contents. Added and LastUse are times, zero if unknown.
	Contents       string
	Added, LastUse time.Time
	// Grow reports whether it can grow. Ask is the question before it is deleted without a page; "" for a page.
	Grow bool
	Ask  string
	// Upload reports whether an upload is expected. Command is a command that uploads the data; "" if there is none.
	Upload  bool
	Command string
	// Export reports whether the data may be downloaded.
	Export bool
	Delete linkView
}

// visibleStorage returns the disks, if the visitor may see and create them. That requires permission to create VMs,
// because a new VM can have any disk. verbs are further permissions that the visitor needs for all VMs.
//
// See docs/decisions/0135-disks-on-pages.md.
func (v visit) visibleStorage(verbs ...access.Verb) (fleet.Storage, error) {
	all := v.s.opts.Fleet.Storage()
	if all == nil {
		return nil, errNoPage
	}
	for _, verb := range append([]access.Verb{access.Create}, verbs...) {
		if d := v.s.opts.Visitors.Decide(v.ctx, v.who, verb, &fleet.VM{}); !d.Allowed {
			return nil, forbidden{d}
		}
	}
	return all, nil
}

func (s *Server) getDisks(w http.ResponseWriter, r *http.Request) error {
	v := s.visitOf(r)
	view := disksView{frame: v.newFrame(v.T("disks.title"))}
	list, err := v.diskList()
	if err != nil {
		return err
	}
	offer := s.opts.Fleet.Storage().NewDisks()
	view.Table, view.New = v.diskTable(list), v.newDiskInputs(list, offer)
	if offer.Known != nil {
		view.Fetch = v.fetchInputs(offer.Known)
	}
	if offer.Folder != "" {
		view.Room = v.T("disks.room", offer.Folder, v.formatBytes(offer.Free))
	}
	view.Live, view.Here = "/live?disks=1", "/disks"
	return s.showPage(w, http.StatusOK, "disks", view)
}

// diskList returns the disks that the visitor may see.
func (v visit) diskList() ([]fleet.Volume, error) {
	all, err := v.visibleStorage()
	if err != nil {
		return nil, err
	}
	return all.Disks(v.ctx)
}

// diskParts returns the changing part of the page.
func (v visit) diskParts() ([]part, error) {
	list, err := v.diskList()
	if err = cmp.Or(v.mayUse(access.PageVMs), err); err != nil {
		return nil, err
	}
	return v.renderParts(map[string]any{"disktable": v.diskTable(list)})
}

func (v visit) diskTable(list []fleet.Volume) diskTable {
	table, refused := diskTable{words: v.words}, v.whyRefused(access.Delete, &fleet.VM{})
	all := v.s.opts.Fleet.Storage()
	_, exports := all.(fleet.Exports)
	_, table.Growing = all.(fleet.Growth)
	for _, of := range list {
		row := diskRow{
			volumeView: v.volumeOf(of), ID: string(of.Kind) + "-" + of.Name, UsedBy: strings.Join(of.UsedBy, ", "),
			At: addressOf(of), Export: exports && (of.State == "Ready" || of.State == "Resizing"),
			Grow: table.Growing, Contents: of.Contents, Added: of.Added, LastUse: of.LastUse,
			Upload: of.State == "WaitForUserUpload",
		}
		row.Delete = linkView{
			ID: "delete-" + row.ID, Href: row.At + "/delete", Label: v.T("do.delete"), Class: "danger",
			Refused: refused, Icon: v.Icon("delete"),
		}
		if of.Kind == fleet.ClusterVirtualImage {
			row.Delete.Refused, row.Export = v.T("disks.ofcluster"), false
		} else if refused == "" && row.UsedBy != "" {
			row.Delete.Refused = v.T("disks.used", row.UsedBy)
		}
		switch {
		case of.Kind == fleet.CachedImage:
			row.Ask = v.T("ask.deleteimage", of.Name)
		case row.Upload && of.Kind == fleet.VirtualImage:
			row.Command = "kubectl vmop image upload " + of.Name + " FILE"
		case row.Upload && of.Kind == fleet.VirtualDisk:
			row.Command = "kubectl vmop disk upload " + of.Name + " FILE"
		}
		table.Rows = append(table.Rows, row)
	}
	return table
}

// sourceChoices returns the possible sources of a new disk.
func (v visit) sourceChoices(list []fleet.Volume, offer fleet.NewDisks) (choices []choiceView) {
	add := func(value, text string) { choices = append(choices, choiceView{value, text, false}) }
	for _, from := range offer.From {
		switch from {
		case fleet.FromBlank, fleet.FromURL, fleet.FromUpload:
			add(string(from), v.T("disks.from."+string(from)))
		case fleet.FromImage, fleet.FromDisk, fleet.FromVM:
		}
	}
	for _, of := range list {
		switch {
		case of.Kind == fleet.ClusterVirtualImage && volumeClass(of.State) != "bad":
			name := fleet.ClusterImagePrefix + of.Name
			add(string(fleet.FromImage)+":"+name, v.T("disks.from.image", name))
		case of.State != "Ready":
		case of.Kind == fleet.VirtualImage:
			add(string(fleet.FromImage)+":"+of.Name, v.T("disks.from.image", of.Name))
		case of.Kind == fleet.VirtualDisk:
			add("disk:"+of.Name, v.T("disks.from.disk", of.Name))
		}
	}
	return choices
}

// hiddenInput is the kind of a field that users don't see.
const hiddenInput = "hidden"

// newDiskInputs returns the fields for a new disk. A field with a single choice is hidden.
func (v visit) newDiskInputs(list []fleet.Volume, offer fleet.NewDisks) []inputView {
	text := func(name, class string) inputView {
		return inputView{
			ID: "f-" + name, Name: name, Kind: textInput, Label: v.T("disks.field." + name), Autocomplete: "off",
			Class: class,
		}
	}
	kind, from := text("kind", ""), text("from", "")
	kind.Kind, from.Kind = choiceInput, choiceInput
	for i, k := range offer.Kinds {
		kind.Choices = append(kind.Choices, choiceView{string(k), v.T("volume.kind." + string(k)), i == 0})
	}
	from.Choices = v.sourceChoices(list, offer)
	for _, field := range []*inputView{&kind, &from} {
		if len(field.Choices) == 1 {
			field.Kind, field.Value = hiddenInput, field.Choices[0].Value
		}
	}
	name := text("name", "")
	name.Mandatory = true
	fields := []inputView{name, kind, from}
	if slices.Contains(offer.From, fleet.FromURL) {
		fields = append(fields, text("url", "forurl"))
	}
	fields = append(fields, text("checksum", "forfile"))
	if offer.Sized {
		size := text("size", "")
		size.Mandatory, size.Placeholder = true, "20 GiB"
		fields = append(fields, size)
	}
	if offer.Classes {
		class := text("class", "")
		class.Placeholder = v.T("new.default")
		fields = append(fields, class)
	}
	return fields
}

// fetchInputs returns the fields for fetching an image.
func (v visit) fetchInputs(known []fleet.KnownImage) []inputView {
	image := inputView{
		ID: "fetch-url", Name: "url", Kind: textInput, Label: v.T("fetch.image"), Autocomplete: "off", Mandatory: true,
		Placeholder: "debian/12",
	}
	for _, k := range known {
		image.Known = append(image.Known, k.Name)
	}
	checksum := inputView{
		ID: "fetch-checksum", Name: "checksum", Kind: textInput, Label: v.T("disks.field.checksum"),
		Autocomplete: "off",
	}
	return []inputView{image, checksum}
}

// readNewDisk parses a new disk from fields. Forms and programs use the same fields.
func (v visit) readNewDisk(get func(field string) string, offer fleet.NewDisks) (d fleet.NewDisk, err error) {
	from, of, _ := strings.Cut(get("from"), ":")
	d.Kind, d.Name, d.Class = fleet.VolumeKind(get("kind")), get("name"), get("class")
	d.From, d.Of = fleet.DiskFrom(from), of
	if d.From == fleet.FromURL {
		d.Of, d.Checksum = get("url"), get("checksum")
	}
	var ok bool
	if d.Size, ok = parseBytes(get("size")); !ok && (offer.Sized || get("size") != "") {
		return d, fleet.Refusal(v.T("new.nosize"))
	}
	switch d.From {
	case fleet.FromBlank, fleet.FromURL, fleet.FromUpload, fleet.FromImage, fleet.FromDisk:
		return d, nil
	}
	return d, fleet.Refusal(v.T("new.nosource"))
}

func (s *Server) postDisk(w http.ResponseWriter, r *http.Request) error {
	if err := parseForm(w, r); err != nil {
		return err
	}
	return s.createDisk(w, r, func(field string) string { return strings.TrimSpace(r.PostForm.Get(field)) })
}

// createDisk creates a disk.
func (s *Server) createDisk(w http.ResponseWriter, r *http.Request, get func(field string) string) error {
	v := s.visitOf(r)
	all, err := v.visibleStorage()
	if err != nil {
		return err
	}
	d, err := v.readNewDisk(get, all.NewDisks())
	if err != nil {
		return err
	}
	name := cmp.Or(d.Name, string(d.Kind)) // a URL may contain a password
	return s.changeDisk(w, r, name, "create", func() error { return all.CreateDisk(r.Context(), v.who.User, d) })
}

func (s *Server) postDiskSize(w http.ResponseWriter, r *http.Request) error {
	if err := parseForm(w, r); err != nil {
		return err
	}
	return s.growDisk(w, r, r.PostForm.Get("size"))
}

// growDisk grows a disk.
func (s *Server) growDisk(w http.ResponseWriter, r *http.Request, text string) error {
	v := s.visitOf(r)
	all, err := v.visibleStorage()
	if err != nil {
		return err
	}
	size, ok := parseBytes(text)
	if !ok {
		return fleet.Refusal(v.T("new.nosize"))
	}
	of, err := diskOf(r, all)
	if err != nil {
		return err
	}
	growing, can := all.(fleet.Growth)
	if !can {
		return fleet.Refusal(v.T("disks.nogrow"))
	}
	return s.changeDisk(w, r, of.Name, "grow", func() error {
		return growing.GrowDisk(r.Context(), v.who.User, of.Kind, of.Name, size)
	})
}

// diskOf returns the disk that a request names.
func diskOf(r *http.Request, all fleet.Storage) (fleet.Volume, error) {
	list, err := all.Disks(r.Context())
	for _, of := range list {
		if string(of.Kind) == r.PathValue("kind") && of.Name == r.PathValue("disk") {
			return of, nil
		}
	}
	return fleet.Volume{}, cmp.Or(err, error(errNoDisk))
}

// changeDisk changes a disk, except in a dry run, logs it, and answers.
func (s *Server) changeDisk(w http.ResponseWriter, r *http.Request, name, action string, do func() error) error {
	dry, err := booleanParameter(r, "dryRun")
	if err != nil {
		return err
	}
	if !dry {
		err = do()
		s.recordOf(r, "disk", name, action, err)
	}
	switch {
	case errors.Is(err, fleet.ErrNotFound):
		return errNoDisk
	case err != nil:
		return err
	case isAPI(r):
		w.WriteHeader(http.StatusNoContent)
		return nil
	}
	return s.answerChange(w, r, "/disks")
}

// diskDeletion is the page for deleting a disk.
type diskDeletion struct {
	frame
	Name, Kind, At, Size, Typed string
	Contents                    string
	Wrong                       bool
	// Blocked is why it can't be deleted now.
	Blocked string
}

func (v visit) diskDeletion(of fleet.Volume) diskDeletion {
	view := diskDeletion{
		frame: v.newFrame(v.T("delete.title", of.Name)), Name: of.Name, Kind: v.T("volume.kind." + string(of.Kind)),
		At: addressOf(of), Size: v.formatBytes(of.Size), Contents: of.Contents,
	}
	if len(of.UsedBy) > 0 {
		view.Blocked = v.T("disks.used", strings.Join(of.UsedBy, ", "))
	}
	return view
}

func (s *Server) getDiskDelete(w http.ResponseWriter, r *http.Request) error {
	v := s.visitOf(r)
	all, err := v.visibleStorage(access.Delete)
	if err != nil {
		return err
	}
	of, err := diskOf(r, all)
	if err != nil {
		return err
	}
	return s.showPage(w, http.StatusOK, "diskdelete", v.diskDeletion(of))
}

// postDiskDelete deletes a disk after its name was typed as confirmation.
func (s *Server) postDiskDelete(w http.ResponseWriter, r *http.Request) error {
	if err := parseForm(w, r); err != nil {
		return err
	}
	v := s.visitOf(r)
	all, err := v.visibleStorage(access.Delete)
	if err != nil {
		return err
	}
	of, err := diskOf(r, all)
	if err != nil {
		return err
	}
	if of.Kind == fleet.CachedImage { // it can be fetched again
		if !fromScript(r) && r.PostForm.Get("sure") == "" {
			return s.askConfirmation(w, r, v.T("do.delete"), v.T("ask.deleteimage", of.Name))
		}
		return s.deleteDisk(w, r, all, of)
	}
	if typed := r.PostForm.Get("name"); typed != of.Name {
		view := v.diskDeletion(of)
		view.Wrong, view.Typed = true, typed
		return s.showPage(w, http.StatusUnprocessableEntity, "diskdelete", view)
	}
	return s.deleteDisk(w, r, all, of)
}

func (s *Server) deleteDisk(w http.ResponseWriter, r *http.Request, all fleet.Storage, of fleet.Volume) error {
	if len(of.UsedBy) > 0 {
		return fleet.Refusal(s.visitOf(r).T("disks.used", strings.Join(of.UsedBy, ", ")))
	}
	return s.changeDisk(w, r, of.Name, "delete", func() error {
		return all.DeleteDisk(r.Context(), s.visitOf(r).who.User, of.Kind, of.Name)
	})
}

// apiDisks answers with the disks and images.
func (s *Server) apiDisks(w http.ResponseWriter, r *http.Request) error {
	list, err := s.visitOf(r).diskList()
	if err != nil {
		return err
	}
	return answerJSON(w, struct {
		Items []fleet.Volume `json:"items"`
	}{append([]fleet.Volume{}, list...)})
}

func (s *Server) apiCreateDisk(w http.ResponseWriter, r *http.Request) error {
	fields := map[string]string{}
	if err := bodyJSON(w, r, &fields); err != nil {
		return err
	}
	return s.createDisk(w, r, func(field string) string { return fields[field] })
}

func (s *Server) apiGrowDisk(w http.ResponseWriter, r *http.Request) error {
	var wanted struct {
		Size string `json:"size"`
	}
	if err := bodyJSON(w, r, &wanted); err != nil {
		return err
	}
	return s.growDisk(w, r, wanted.Size)
}

func (s *Server) apiDeleteDisk(w http.ResponseWriter, r *http.Request) error {
	all, err := s.visitOf(r).visibleStorage(access.Delete)
	if err != nil {
		return err
	}
	of, err := diskOf(r, all)
	if err != nil {
		return err
	}
	return s.deleteDisk(w, r, all, of)
}
