package web

import (
	"net/http"
	"strings"
	"time"

	"vmop/manager/access"
	"vmop/manager/web/fleet"
)

// volumesView shows the disks of a VM.
type volumesView struct {
	words
	Name, Refused string
	Rows          []volumeView
}

// A volumeView is a disk as pages show it.
type volumeView struct {
	words
	Name, Kind, Size string
	// State is empty if it is unknown. Why explains it.
	State  stateView
	Why    string
	Source string
	// Attached reports that the disk can be detached from the running guest, with the name Device.
	Attached bool
	Device   string
}

// attachView offers disks to attach to a running VM.
type attachView struct {
	words
	Name, Refused string
	Disks         []string
}

// snapshotsView shows the snapshots of a VM.
type snapshotsView struct {
	words
	Name, Refused string
	// Shown reports that this fleet has snapshots.
	Shown bool
	Rows  []snapshotView
}

type snapshotView struct {
	Name  string
	State stateView
	Why   string
	At    time.Time
	// Consistent is the word for whether all disks were captured at the same moment; "" while unknown.
	Consistent string
}

func (v visit) volumesOf(vm *fleet.VM) volumesView {
	view := volumesView{words: v.words, Name: vm.Name, Refused: v.whyRefused(access.Edit, vm)}
	for _, one := range vm.Volumes {
		view.Rows = append(view.Rows, v.volumeOf(one))
	}
	return view
}

// attachableDisks returns the disks that can be attached to a VM when its page is loaded.
func (v visit) attachableDisks(vm *fleet.VM) attachView {
	view := attachView{words: v.words, Name: vm.Name, Refused: v.whyRefused(access.Edit, vm)}
	all := v.s.opts.Fleet.Storage()
	if all == nil || view.Refused != "" {
		return view
	}
	list, err := all.Disks()
	if err != nil {
		return view // the page of disks shows the reason
	}
	for _, of := range list {
		if of.Kind == fleet.VirtualDisk && len(of.UsedBy) == 0 && volumeClass(of.State) != "bad" {
			view.Disks = append(view.Disks, of.Name)
		}
		if of.Kind == fleet.VirtualImage && volumeClass(of.State) != "bad" {
			view.Disks = append(view.Disks, fleet.ImagePrefix+of.Name)
		}
		if of.Kind == fleet.ClusterVirtualImage && volumeClass(of.State) != "bad" {
			view.Disks = append(view.Disks, fleet.ClusterImagePrefix+of.Name)
		}
	}
	return view
}

func (v visit) snapshotsOf(vm *fleet.VM) snapshotsView {
	view := snapshotsView{
		words: v.words, Name: vm.Name, Refused: v.whyRefused(access.Edit, vm), Shown: v.s.opts.Fleet.Storage() != nil,
	}
	for _, of := range vm.Snapshots {
		row := snapshotView{
			Name: of.Name, State: stateView{volumeClass(of.State), v.T("snapshot.state." + of.State)}, At: of.At,
		}
		if of.State != "Ready" {
			row.Why = of.Message
		}
		if of.Consistent != nil {
			row.Consistent = v.T("snapshot.torn")
			if *of.Consistent {
				row.Consistent = v.T("snapshot.consistent")
			}
		}
		view.Rows = append(view.Rows, row)
	}
	return view
}

// withDisk returns the visit, VM and storage for a request about a VM and a disk. It requires permission to edit the
// VM.
func (s *Server) withDisk(r *http.Request) (visit, *fleet.VM, fleet.Storage, error) {
	v, all := s.visitOf(r), s.opts.Fleet.Storage()
	if all == nil {
		return v, nil, nil, errNoPage
	}
	vm, err := v.requestedVM(r, access.Edit)
	return v, vm, all, err
}

func (s *Server) postAttach(w http.ResponseWriter, r *http.Request) error {
	if err := parseForm(w, r); err != nil {
		return err
	}
	v, vm, all, err := s.withDisk(r)
	if err != nil {
		return err
	}
	return s.finishAction(w, r, vm, "attach", all.Attach(r.Context(), v.who.User, vm.Name, r.PostForm.Get("disk")))
}

func (s *Server) postDetach(w http.ResponseWriter, r *http.Request) error {
	if err := parseForm(w, r); err != nil {
		return err
	}
	v, vm, all, err := s.withDisk(r)
	disk := r.PostForm.Get("disk")
	switch {
	case err != nil:
		return err
	case !fromScript(r) && r.PostForm.Get("sure") == "":
		return s.askConfirmation(w, r, v.T("disks.detach"), v.T("ask.detach", disk))
	}
	return s.finishAction(w, r, vm, "detach", all.Detach(r.Context(), v.who.User, vm.Name, disk))
}

func (s *Server) postSnapshot(w http.ResponseWriter, r *http.Request) error {
	v, vm, all, err := s.withDisk(r)
	if err != nil {
		return err
	}
	_, err = all.Snapshot(r.Context(), v.who.User, vm.Name)
	return s.finishAction(w, r, vm, "snapshot", err)
}

// apiAttach attaches a disk to a VM.
func (s *Server) apiAttach(w http.ResponseWriter, r *http.Request) error {
	v, vm, all, err := s.withDisk(r)
	if err != nil {
		return err
	}
	return s.carryOutAPI(w, r, vm, "attach", func() error {
		return all.Attach(r.Context(), v.who.User, vm.Name, r.PathValue("disk"))
	})
}

func (s *Server) apiDetach(w http.ResponseWriter, r *http.Request) error {
	v, vm, all, err := s.withDisk(r)
	if err != nil {
		return err
	}
	return s.carryOutAPI(w, r, vm, "detach", func() error {
		return all.Detach(r.Context(), v.who.User, vm.Name, r.PathValue("disk"))
	})
}

func (s *Server) apiSnapshot(w http.ResponseWriter, r *http.Request) error {
	v, vm, all, err := s.withDisk(r)
	if err != nil {
		return err
	}
	return s.carryOutAPI(w, r, vm, "snapshot", func() error {
		_, err := all.Snapshot(r.Context(), v.who.User, vm.Name)
		return err
	})
}

func (v visit) volumeOf(of fleet.Volume) volumeView {
	view := volumeView{words: v.words, Name: of.Name, Kind: v.T("volume.kind." + string(of.Kind)), Source: of.Source}
	if view.Attached = of.Attachment != ""; view.Attached {
		view.Kind += " – " + v.T("volume.attached")
		switch view.Device = of.Name; of.Kind {
		case fleet.VirtualImage:
			view.Device = fleet.ImagePrefix + of.Name
		case fleet.ClusterVirtualImage:
			view.Device = fleet.ClusterImagePrefix + of.Name
		case fleet.OwnDisk, fleet.VirtualDisk, fleet.CDDrive, fleet.FileDisk:
		}
	}
	if of.Size > 0 {
		view.Size = v.formatBytes(of.Size)
	}
	if of.Source == "" && of.Kind != fleet.CDDrive && of.Kind != fleet.FileDisk && of.State != "Missing" {
		view.Source = v.T("volume.blank")
	}
	if of.State == "" {
		return view
	}
	view.State = stateView{volumeClass(of.State), strings.TrimSpace(v.T("volume.state."+of.State) + " " + of.Progress)}
	if view.State.Class != "on" {
		view.Why = of.Message
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
