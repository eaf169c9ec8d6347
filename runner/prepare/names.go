package prepare

import (
	"path/filepath"

	"vmop/runner/adopt/lock"
	"vmop/runner/config"
	"vmop/runner/control"
)

// Files in the runtime directory that are reserved for the runner. With the files of the second group, a runner
// continues the work of a killed runner.
const (
	MonitorSocket  = "monitor.sock"
	CloudInitImage = "cloud-init.img"
	SysprepImage   = "sysprep.img"

	// copyFolder contains the socket that connects QEMU to the target of a moving guest; see VM.CopySocket.
	copyFolder = "copy"

	RecordFile   = "machine.json"
	ProgressFile = "runner.json"
	// TypeFile is the archive of the machine's type. It is a separate file because it is long, and has to exist
	// before the guest runs.
	TypeFile = pinnedType
	// ConfigFile is the active configuration, if it differs from the record's.
	ConfigFile = "config.yaml"
)

// Files in the data directory that are reserved for the runner.
const (
	// The files that pin a VM's type.
	pinnedType     = "vmtype.txtar"
	PinnedMachines = "machines.txt" // machine versions by their aliases
	// RuntimeLink leads to the runtime directory, which the configuration may have moved since. It exists while a
	// guest is running.
	RuntimeLink = "runtime"
	// EndedFile contains how the last run has ended.
	EndedFile = "ended.json"
	// SnapshotsFolder contains the VM's snapshots. RestoreFile lists the files that a restore replaces; see
	// package snapshot.
	SnapshotsFolder = "snapshots"
	RestoreFile     = "restore.json"
	// MigrationFile contains the progress of a guest's move to or from another runner; see package handover.
	MigrationFile = "migration.json"
	// ReceivedFile contains the name of the migration that moved the guest to this pod.
	ReceivedFile = "received"
	// generationFile contains the id of the guest's disks since their last restore; see KeepGeneration.
	generationFile = "generation.txt"
	// FailedFile describes the last start if it failed; see package record.
	FailedFile = "start-failed.json"
	// cardsFile contains the ports of network cards that were plugged in while the VM was running.
	cardsFile = "cards.json"
	// LogFile is the log of a runner that was started in the background.
	LogFile = "runner.log"
)

// SwtpmState is swtpm's file with the state of a TPM 2.0, in its working directory.
const SwtpmState = "tpm2-00.permall"

// KindSuffix is appended to the name of a file that a plan has copied. The resulting file records the purpose of
// the copy.
const KindSuffix = ".kind"

// Limits in bytes of files that runners have written: of short files, and of files with a configuration or the
// modules of a VM type.
const (
	LargestNote   = 1 << 20
	LargestRecord = 64 << 20
)

// OwnData returns the names of files that runners write in the data directory.
func OwnData() []string {
	return []string{
		config.UUIDFile, pinnedType, PinnedMachines, basesFile, originsFile, EndedFile, MigrationFile, ReceivedFile,
		FailedFile, generationFile, cardsFile,
	}
}

// CopySocket returns the path of the socket for copying the disks of a moving guest, on either side. Its folder
// exists as long as the machine.
func (vm *VM) CopySocket() string { return filepath.Join(vm.RuntimeDir, copyFolder, "nbd.sock") }

// DataFiles returns the names of files that runners write in the data directory, including the files of the plan.
func (vm *VM) DataFiles() []string {
	names := append(OwnData(), SwtpmState)
	for _, f := range vm.Plan.Files {
		names = append(names, filepath.Base(f.To), filepath.Base(f.To)+KindSuffix)
	}
	return names
}

// reservedPaths returns the paths of a VM that no plan may give to a process.
func (vm *VM) reservedPaths() (paths []string) {
	for _, name := range []string{
		MonitorSocket, control.SocketName, RecordFile, ProgressFile, TypeFile, ConfigFile, copyFolder,
	} {
		paths = append(paths, filepath.Join(vm.RuntimeDir, name))
	}
	for _, name := range append(OwnData(), lock.RunnerFile, lock.MachineFile, RuntimeLink, LogFile,
		SnapshotsFolder, RestoreFile) {
		paths = append(paths, filepath.Join(vm.DataDir, name))
	}
	return paths
}
