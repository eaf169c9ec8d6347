package store

// Volumes contains the stores of a namespace's disks, images, disk attachments, and VM snapshots. Each has its
// own controller.
type Volumes struct {
	Disks, Images *Disks
	Attachments   *Attachments
	Snapshots     *MachineSnapshots
}

// notice calls further functions for changed objects.
type notice struct{ to []func(name string) }

// OnChange registers show, which is called with the name of a disk after its creation, change or deletion. For
// attachments and snapshots, it is called with the name of the VM. show must return quickly. OnChange must be
// called before Follow.
func (n *notice) OnChange(show func(name string)) { n.to = append(n.to, show) }

// thenNotify returns a function that calls do, and then the functions of OnChange.
func (n *notice) thenNotify(do func(name string)) func(name string) {
	return func(name string) {
		do(name)
		for _, show := range n.to {
			show(name)
		}
	}
}
