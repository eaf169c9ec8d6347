package store

// Volumes are the disks and images of a namespace, the attachments of disks, and the snapshots of VMs, which
// controllers of their own keep.
type Volumes struct {
	Disks, Images *Disks
	Attachments   *Attachments
	Snapshots     *MachineSnapshots
}

// A notice is what else is called for what has changed.
type notice struct{ to []func(name string) }

// OnChange makes it call what shows disks with the name of each that has changed, or is gone; of attachments and
// snapshots with the name of their VM. It must return at once, and OnChange be called before Follow.
func (n *notice) OnChange(show func(name string)) { n.to = append(n.to, show) }

// after returns a function that calls do, and then those of OnChange.
func (n *notice) after(do func(name string)) func(name string) {
	return func(name string) {
		do(name)
		for _, show := range n.to {
			show(name)
		}
	}
}
