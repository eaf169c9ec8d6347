package reconcile

import (
	"vmop/runner/config"
	"vmop/runner/status"
	"vmop/runner/usernet"
)

// Desired is what the configuration wants of a running machine. The zero value
// of a field, and a drive that is not listed, is no wish: it is left as it is.
type Desired struct {
	// CPUs is how many CPUs the guest is to see.
	CPUs int
	// RAM is how many bytes of memory the guest is to have.
	RAM int64
	// Media are the files or web addresses in the CD drives, by their index in
	// vm.drives. "" is the wish for an empty drive.
	Media map[int]string
	// Denied says of media that QEMU may not read why it may not, by the same index. They
	// are not tried.
	Denied map[int]string
	// Sizes are the bytes that disks have on the host, by their index in
	// vm.drives. Disks only grow: one that is smaller is a problem. A size must be one that stays: what is beyond
	// it in a file that grows further is cut off.
	Sizes map[int]int64
	// Drives are the disks that are to be attached besides those that the machine was started
	// with; others that were attached are detached. nil is no wish.
	Drives []Drive
	// DrivesRevision is that of the configuration by which they are wished for; 0: it has none.
	DrivesRevision int64
	// Ports are to be forwarded by user networks, by their index in vm.network.
	Ports map[int][]usernet.Forward
	// Password of the displays; nil means that there is none.
	Password *Password
	// ResetCounter resets the machine when it has become larger. The first one
	// that is seen, and a smaller one, is only remembered.
	ResetCounter *int64
	// NoReset says why the machine must not be reset now; empty if it may.
	NoReset string
}

// Password protects a display.
type Password struct {
	// Text hides itself when printed.
	Text config.Password
	// Expiry in QEMU's grammar: now, never, +n or n (seconds). Empty means that
	// QEMU's default, never, holds.
	Expiry string
}

// Facts are what is true of a machine, as far as it is known. They are a copy.
type Facts struct {
	// Running says that the guest runs, and isn't paused.
	Running bool
	// CPUs is how many CPUs the machine has, which the guest need not use. 0
	// means not known yet, or that no rule is about CPUs.
	CPUs int
	// RAM is how many bytes of memory the guest has. 0 means not known yet, or
	// that no rule is about memory.
	RAM int64
	// Media are what is in the CD drives, by their index in vm.drives. A drive
	// whose medium is not known yet is missing.
	Media map[int]Medium
	// Drives are those that are attached, or are to be, besides those that the machine was
	// started with.
	Drives status.Drives
	// DrivesRevision is the last by which all of Drives were known; 0: none.
	DrivesRevision status.DrivesRevision
	// PasswordSerial counts the passwords that have been set. A changed expiry
	// doesn't count.
	PasswordSerial int
	// ResetCounter is the one that was seen last, nil if none was. A reset that
	// is asked for by the same step counts as seen.
	ResetCounter *int64
	// Problems are the wishes that are not fulfilled, and why.
	Problems []Problem
}

// Medium is what is in a CD drive.
type Medium struct {
	// File or web address; "" means that the drive is empty.
	File string
	// Open says that the tray is open: the guest doesn't see the medium.
	Open bool
	// Locked says that the guest keeps the tray closed and has been asked to
	// open it.
	Locked bool
	// Pending says that another medium is wanted.
	Pending bool
}

// Problem is a wish that is not fulfilled.
type Problem struct {
	// Path of the wish in the configuration: vm.currentCpus.
	Path string
	// Message says why not.
	Message string
}

// add notes a problem, if there is one.
func (f *Facts) add(path, message string) {
	if message != "" {
		f.Problems = append(f.Problems, Problem{path, message})
	}
}
