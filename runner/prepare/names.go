package prepare

import (
	"path/filepath"

	"vmop/runner/config"
	"vmop/runner/control"
	"vmop/runner/lock"
)

// Files in the runtime directory that are the runner's own. By those of the second
// group a runner carries on what another one, which was killed, has begun.
const (
	MonitorSocket  = "monitor.sock"
	CloudInitImage = "cloud-init.img"
	SysprepImage   = "sysprep.img"

	// CopyFolder is for a socket by which QEMU writes to the target of a guest that moves; see VM.CopySocket.
	CopyFolder = "copy"

	RecordFile   = "machine.json"
	ProgressFile = "runner.json"
	// TypeFile is the archive of the machine's type: a file of its own, because it is
	// long, and has to be there before the guest runs.
	TypeFile = pinnedType
	// ConfigFile is the configuration in force, if it isn't the record's.
	ConfigFile = "config.yaml"
)

// Files in the data directory that are the runner's own.
const (
	// What a VM keeps of its type.
	pinnedType     = "vmtype.txtar"
	PinnedMachines = "machines.txt" // machine versions by their aliases
	// RuntimeLink leads to the runtime directory, which the configuration may have
	// moved meanwhile. It is there while a guest runs.
	RuntimeLink = "runtime"
	// EndedFile says how the last run has ended.
	EndedFile = "ended.json"
	// SnapshotsFolder has the VM's snapshots, and RestoreFile says what is replaced by one of them;
	// see package snapshot.
	SnapshotsFolder = "snapshots"
	RestoreFile     = "restore.json"
	// MigrationFile says how far the move of a guest to or from another runner is; see package handover.
	MigrationFile = "migration.json"
	// ReceivedFile has the name of the migration by which the guest has come to this pod.
	ReceivedFile = "received"
	// FailedFile describes the last start if it failed; see package record.
	FailedFile = "start-failed.json"
	// LogFile is the log of a runner that was started in the background.
	LogFile = "runner.log"
)

// SwtpmState is the file in which swtpm keeps the state of a TPM 2.0, in the directory
// in which it works.
const SwtpmState = "tpm2-00.permall"

// KindSuffix is appended to the name of a file that a plan has copied; the file of that
// name remembers what the copy is good for.
const KindSuffix = ".kind"

// Bounds of files that runners have written, in bytes: of a few lines, and those that
// hold a configuration or the modules of a VM type.
const (
	LargestNote   = 1 << 20
	LargestRecord = 64 << 20
)

// OwnData are the names of files that runners write in the data directory.
func OwnData() []string {
	return []string{
		config.UUIDFile, pinnedType, PinnedMachines, basesFile, originsFile, EndedFile, MigrationFile, ReceivedFile,
		FailedFile,
	}
}

// CopySocket is the path of the socket by which disks of a guest that moves are copied, on either side. Its folder is
// there as long as the machine.
func (vm *VM) CopySocket() string { return filepath.Join(vm.RuntimeDir, CopyFolder, "nbd.sock") }

// DataFiles are the names of files that runners write in the data directory, those of
// the plan included.
func (vm *VM) DataFiles() []string {
	names := append(OwnData(), SwtpmState)
	for _, f := range vm.Plan.Files {
		names = append(names, filepath.Base(f.To), filepath.Base(f.To)+KindSuffix)
	}
	return names
}

// reserved are the paths of a VM that no plan may give to a process.
func (vm *VM) reserved() (paths []string) {
	for _, name := range []string{
		MonitorSocket, control.SocketName, RecordFile, ProgressFile, TypeFile, ConfigFile, CopyFolder,
	} {
		paths = append(paths, filepath.Join(vm.RuntimeDir, name))
	}
	for _, name := range append(OwnData(), lock.RunnerFile, lock.MachineFile, RuntimeLink, LogFile,
		SnapshotsFolder, RestoreFile) {
		paths = append(paths, filepath.Join(vm.DataDir, name))
	}
	return paths
}
