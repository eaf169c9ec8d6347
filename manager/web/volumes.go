package web

import (
	"net/http"
	"strings"

	"vmop/manager/access"
	"vmop/manager/web/fleet"
)

// volumesView shows the disks of a VM.
type volumesView struct {
	words
	Name, Refused string
	Rows          []volumeView
	// Exportable are the disks that can be copied to a file of the computer, and NotNow is why that is impossible now.
	Exportable []volumeView
	NotNow     string
}

// A volumeView is a disk as pages show it.
type volumeView struct {
	words
	Name, Kind, Size string
	// Stored is the space that it occupies, Format its format; both are empty if they are unknown.
	Stored, Format string
	// State is empty if it is unknown. Why explains it, and Advice is what to do.
	State       stateView
	Why, Advice string
	Source      string
	// Detaches is the name for detaching it, Grows for growing it, and Exports for copying it to a file; "" if that is
	// impossible.
	Detaches, Grows, Exports string
}

// attachView offers disks to attach to a VM.
type attachView struct {
	words
	Name, Refused string
	fleet.Attachable
	// Shown reports that this VM can get disks now.
	Shown bool
}

func (v visit) volumesOf(vm *fleet.VM) volumesView {
	view := volumesView{words: v.words, Name: vm.Name, Refused: v.whyRefused(access.Edit, vm)}
	for _, one := range vm.Volumes {
		row := v.volumeOf(one)
		view.Rows = append(view.Rows, row)
		if row.Exports != "" {
			view.Exportable = append(view.Exportable, row)
		}
	}
	view.NotNow = view.Refused
	if view.NotNow == "" && vm.State.Up() {
		view.NotNow = v.T("snapshot.stopfirst")
	}
	return view
}

// attachableDisks returns the disks that can be attached to a VM when its page is loaded.
func (v visit) attachableDisks(vm *fleet.VM) attachView {
	view := attachView{words: v.words, Name: vm.Name, Refused: v.whyRefused(access.Edit, vm)}
	all := v.s.opts.Fleet.Attachments()
	if all == nil || view.Refused != "" {
		return view
	}
	view.Attachable = all.Attachable(v.ctx, vm)
	view.Shown = len(view.Disks) > 0 || view.Files || view.Blank
	return view
}

// attachmentsOf returns the visit, the VM and the interface for a request that changes the disks of a VM.
func (s *Server) attachmentsOf(r *http.Request) (visit, *fleet.VM, fleet.Attachments, error) {
	v, all := s.visitOf(r), s.opts.Fleet.Attachments()
	if all == nil {
		return v, nil, nil, errNoPage
	}
	vm, err := v.requestedVM(r, access.Edit)
	return v, vm, all, err
}

// readAttachment parses a disk to attach from fields. Forms and programs use the same fields.
func (v visit) readAttachment(disk, size string) (a fleet.Attachment, err error) {
	a.Disk = strings.TrimSpace(disk)
	if size = strings.TrimSpace(size); size == "" && a.Disk != "" {
		return a, nil
	}
	var ok bool
	if a.Size, ok = parseBytes(size); !ok || a.Size <= 0 {
		return a, fleet.Refusal(v.T("new.nosize"))
	}
	return a, nil
}

func (s *Server) postAttach(w http.ResponseWriter, r *http.Request) error {
	if err := parseForm(w, r); err != nil {
		return err
	}
	v, vm, all, err := s.attachmentsOf(r)
	if err != nil {
		return err
	}
	a, err := v.readAttachment(r.PostForm.Get("disk"), r.PostForm.Get("size"))
	if err != nil {
		return err
	}
	return s.finishAction(w, r, vm, "attach", all.Attach(r.Context(), v.who.User, vm.Name, a))
}

func (s *Server) postDetach(w http.ResponseWriter, r *http.Request) error {
	if err := parseForm(w, r); err != nil {
		return err
	}
	v, vm, all, err := s.attachmentsOf(r)
	disk := r.PostForm.Get("disk")
	switch {
	case err != nil:
		return err
	case !fromScript(r) && r.PostForm.Get("sure") == "":
		return s.askConfirmation(w, r, v.T("disks.detach"), v.T("ask.detach", disk))
	}
	return s.finishAction(w, r, vm, "detach", all.Detach(r.Context(), v.who.User, vm.Name, disk))
}

// postGrow grows a disk of a VM.
func (s *Server) postGrow(w http.ResponseWriter, r *http.Request) error {
	if err := parseForm(w, r); err != nil {
		return err
	}
	v, vm, all, err := s.attachmentsOf(r)
	if err != nil {
		return err
	}
	size, ok := parseBytes(r.PostForm.Get("size"))
	if !ok {
		return fleet.Refusal(v.T("new.nosize"))
	}
	return s.finishAction(w, r, vm, "grow", all.Grow(r.Context(), v.who.User, vm.Name, r.PostForm.Get("disk"), size))
}

// exportDisk copies a disk of a VM to a file of the computer.
func (s *Server) exportDisk(v visit, vm *fleet.VM, disk, file, format string) error {
	all, can := s.opts.Fleet.Attachments().(fleet.DiskFiles)
	if !can {
		return errNoPage
	}
	return all.ExportDisk(v.ctx, v.who.User, vm.Name, disk, strings.TrimSpace(file), format)
}

func (s *Server) postExportDisk(w http.ResponseWriter, r *http.Request) error {
	v, vm, err := s.postedVM(w, r, access.Edit)
	if err != nil {
		return err
	}
	get := r.PostForm.Get
	return s.finishAction(w, r, vm, "export", s.exportDisk(v, vm, get("disk"), get("file"), get("format")))
}

// apiExportDisk copies a disk of a VM to a file of the computer.
func (s *Server) apiExportDisk(w http.ResponseWriter, r *http.Request) error {
	v := s.visitOf(r)
	vm, err := v.requestedVM(r, access.Edit)
	if err != nil {
		return err
	}
	var wanted struct {
		File   string `json:"file"`
		Format string `json:"format"`
	}
	if err := bodyJSON(w, r, &wanted); err != nil {
		return err
	}
	return s.carryOutAPI(w, r, vm, "export", func() error {
		return s.exportDisk(v, vm, r.PathValue("disk"), wanted.File, wanted.Format)
	})
}

// apiAttach attaches a disk to a VM.
func (s *Server) apiAttach(w http.ResponseWriter, r *http.Request) error {
	v, vm, all, err := s.attachmentsOf(r)
	if err != nil {
		return err
	}
	return s.carryOutAPI(w, r, vm, "attach", func() error {
		return all.Attach(r.Context(), v.who.User, vm.Name, fleet.Attachment{Disk: r.PathValue("disk")})
	})
}

// apiAttachNew attaches a file or a new disk to a VM.
func (s *Server) apiAttachNew(w http.ResponseWriter, r *http.Request) error {
	v, vm, all, err := s.attachmentsOf(r)
	if err != nil {
		return err
	}
	var wanted struct {
		File string `json:"file"`
		Size string `json:"size"`
	}
	if err := bodyJSON(w, r, &wanted); err != nil {
		return err
	}
	a, err := v.readAttachment(wanted.File, wanted.Size)
	if err != nil {
		return err
	}
	return s.carryOutAPI(w, r, vm, "attach", func() error {
		return all.Attach(r.Context(), v.who.User, vm.Name, a)
	})
}

func (s *Server) apiDetach(w http.ResponseWriter, r *http.Request) error {
	v, vm, all, err := s.attachmentsOf(r)
	if err != nil {
		return err
	}
	return s.carryOutAPI(w, r, vm, "detach", func() error {
		return all.Detach(r.Context(), v.who.User, vm.Name, r.PathValue("disk"))
	})
}

// apiGrow grows a disk of a VM.
func (s *Server) apiGrow(w http.ResponseWriter, r *http.Request) error {
	v, vm, all, err := s.attachmentsOf(r)
	if err != nil {
		return err
	}
	var wanted struct {
		Size string `json:"size"`
	}
	if err := bodyJSON(w, r, &wanted); err != nil {
		return err
	}
	size, ok := parseBytes(wanted.Size)
	if !ok {
		return fleet.Refusal(v.T("new.nosize"))
	}
	return s.carryOutAPI(w, r, vm, "grow", func() error {
		return all.Grow(r.Context(), v.who.User, vm.Name, r.PathValue("disk"), size)
	})
}

func (v visit) volumeOf(of fleet.Volume) volumeView {
	view := volumeView{
		words: v.words, Name: of.Name, Kind: v.T("volume.kind." + string(of.Kind)), Source: of.Source,
		Format: of.Format, Detaches: of.Detaches, Grows: of.Grows, Exports: of.Exports,
	}
	if of.Attachment != "" {
		view.Kind += " – " + v.T("volume.attached")
	}
	if of.Size > 0 {
		view.Size = v.formatBytes(of.Size)
	}
	if of.Stored > 0 {
		view.Stored = v.formatBytes(of.Stored)
	}
	if of.Source == "" && of.State != "Missing" {
		switch of.Kind {
		case fleet.OwnDisk, fleet.VirtualDisk, fleet.VirtualImage, fleet.ClusterVirtualImage:
			view.Source = v.T("volume.blank")
		case fleet.CDDrive, fleet.FileDisk, fleet.UploadedFile, fleet.CachedImage, fleet.DeletedVMData:
		}
	}
	if of.State == "" {
		return view
	}
	view.State = stateView{volumeClass(of.State), strings.TrimSpace(v.T("volume.state."+of.State) + " " + of.Progress)}
	if view.State.Class != "on" {
		view.Why, view.Advice = of.Message, of.Advice
	}
	return view
}

// volumeClass returns the CSS class for the state of a disk.
func volumeClass(state string) string {
	switch state {
	case "Ready", "Resizing":
		return "on"
	case "Failed", "Missing":
		return "bad"
	case "Provisioning", "InProgress", "Terminating":
		return "busy"
	case "WaitForUserUpload":
		return "held"
	}
	return "off"
}
