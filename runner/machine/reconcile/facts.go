package reconcile

import (
	"vmop/runner/config"
	"vmop/runner/machine/usernet"
	"vmop/runner/status"
	"vmop/vmspec"
)

// Desired is the wanted configuration of a running machine. The zero value of a field, and a drive that is not
// listed, leave the machine unchanged.
type Desired struct {
	// CPUs is the wanted number of CPUs that the guest sees.
	CPUs int
	// RAM is the wanted memory of the guest, in bytes.
	RAM int64
	// Media are the files or web addresses in the CD drives, by their index in vm.drives. "" requests an empty
	// drive.
	Media map[int]string
	// Denied contains the reasons why QEMU may not read some media, by the same index. These media are not tried.
	Denied map[int]string
	// Sizes are the sizes of disks on the host, in bytes, by their index in vm.drives. Disks only grow; a smaller
	// size is reported as a problem. A size must be stable: if the file grows further, the part beyond the size
	// is cut off.
	Sizes map[int]int64
	// Limits are the limits of disks, by their index in vm.drives. The zero value means no limits.
	Limits map[int]vmspec.DiskLimits
	// Drives are the disks that must be attached in addition to the disks that the machine was started with.
	// Other attached disks are detached. nil leaves the disks unchanged.
	Drives []Drive
	// DrivesRevision is the revision of the configuration that contains Drives; 0 if it has no revision.
	DrivesRevision int64
	// Cards are the network cards that must be plugged in, in addition to the cards that the machine was started
	// with. Other plugged cards are unplugged. nil leaves the cards unchanged.
	Cards []Card
	// Links are the link states of the network cards that the machine was started with, by their index in
	// vm.network; true is up.
	Links map[int]bool
	// Ports are forwarded by user networks, by their index in vm.network.
	Ports map[int][]usernet.Forward
	// Password of the displays; nil means no password.
	Password *Password
	// ResetCounter resets the machine when it increases. The first value and a smaller value are only recorded.
	ResetCounter *int64
	// NoReset is why the machine must not be reset at the moment; "" if it may be reset.
	NoReset string
}

// Password protects a display.
type Password struct {
	// Text is hidden when printed.
	Text config.Password
	// Expiry in QEMU's syntax: now, never, +n or n (seconds). Empty means QEMU's default, never.
	Expiry string
}

// Facts are the known state of a machine. They are a copy.
type Facts struct {
	// Running reports whether the guest runs and is not paused.
	Running bool
	// CPUs is the number of CPUs in the machine; the guest may use fewer. 0 means unknown, or that no rule
	// concerns CPUs.
	CPUs int
	// RAM is the memory of the guest, in bytes. 0 means unknown, or that no rule concerns memory.
	RAM int64
	// Media are the media in the CD drives, by their index in vm.drives. A drive with an unknown medium is
	// missing.
	Media map[int]Medium
	// Drives are the disks that are attached, or must be attached, in addition to the disks that the machine was
	// started with.
	Drives status.Drives
	// DrivesRevision is the last revision that all of Drives were compared with; 0: none.
	DrivesRevision status.DrivesRevision
	// NICs are the network cards that are plugged in, or must be, in addition to the cards that the machine was
	// started with.
	NICs status.NICs
	// PasswordSerial counts the passwords that have been set. A changed expiry does not count.
	PasswordSerial int
	// ResetCounter is the last counter seen, or nil. A reset that the same step requests counts as seen.
	ResetCounter *int64
	// Problems are the wishes that are not fulfilled, with the reasons.
	Problems []Problem
}

// Medium is the medium in a CD drive.
type Medium struct {
	// File or web address; "" means that the drive is empty.
	File string
	// Open reports whether the tray is open, so that the guest does not see the medium.
	Open bool
	// Locked reports whether the guest keeps the tray closed although it was asked to open it.
	Locked bool
	// Pending reports whether another medium is wanted.
	Pending bool
}

// Problem is a wish that is not fulfilled.
type Problem struct {
	// Path of the wish in the configuration, such as vm.currentCpus.
	Path string
	// Message is the reason.
	Message string
}

// addProblem adds a problem, unless the message is empty.
func (f *Facts) addProblem(path, message string) {
	if message != "" {
		f.Problems = append(f.Problems, Problem{path, message})
	}
}
