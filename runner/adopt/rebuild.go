package adopt

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"vmop/internal/childprocess"
	"vmop/internal/printable"
	"vmop/internal/readfile"
	"vmop/qmp"
	"vmop/runner/adopt/holders"
	"vmop/runner/adopt/record"
	"vmop/runner/config"
	"vmop/runner/launch"
	"vmop/runner/launch/sockets"
	"vmop/runner/machine/reconcile"
	"vmop/runner/prepare"
	"vmop/vmtypes/plan"
)

// How long a QEMU without a record may take to identify itself.
const (
	askTime   = 30 * time.Second
	startTime = 10 * time.Second // if its guest has never run, as far as is known
)

// A finding is a machine with an unusable record.
type finding struct {
	search
	dir     string            // the runtime directory
	holders []childprocess.ID // of the lock
	found   record.Machine    // the readable part of the record
	err     error             // why the record can't be used
}

// findQEMU returns the QEMU that holds the lock. It is zero if there is no visible QEMU.
func (f *finding) findQEMU() childprocess.ID { return holders.FindQEMU(f.holders) }

// restoreMonitor recreates the runtime directory, with a link to QEMU's monitor, if they were removed.
func (f *finding) restoreMonitor() error {
	qemu := f.findQEMU()
	if _, err := os.Stat(f.monitorPath()); err == nil || qemu == (childprocess.ID{}) {
		return nil
	}
	if err := launch.MakePrivateDir(f.dir); err != nil {
		return err
	}
	return sockets.LinkInherited(qemu, f.monitorPath())
}

func (f *finding) monitorPath() string { return filepath.Join(f.dir, prepare.MonitorSocket) }

// identity is QEMU's own identification, with the serial numbers of disks and the hardware addresses
// of network cards attached since its start.
type identity struct {
	name, uuid, status string
	plugged            []string
	cards              []string
}

// noUUID is the uuid that QEMU reports if its VM type doesn't set a uuid.
const noUUID = "00000000-0000-0000-0000-000000000000"

// hasBegun reports whether the guest has run.
func (i identity) hasBegun() bool { return i.status != "prelaunch" }

// queryIdentity asks QEMU for its identity.
func (f *finding) queryIdentity(ctx context.Context, limit time.Duration) (who identity, err error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	session, err := qmp.Dial(ctx, f.monitorPath(), qmp.WithTrace(f.log))
	if err != nil {
		return who, err
	}
	defer session.Close()
	var said struct{ Name, UUID, Status string }
	for _, question := range []string{"query-name", "query-uuid", "query-status"} {
		reply, err := session.Run(ctx, qmp.Command{Execute: question})
		if err == nil {
			err = json.Unmarshal(reply, &said)
		}
		if err != nil {
			return who, fmt.Errorf("%s: %w", question, err)
		}
	}
	who.name, who.uuid, who.status = printable.Line(said.Name), printable.Line(said.UUID), printable.Line(said.Status)
	var nodes []struct {
		Name string `json:"node-name"`
	}
	all := qmp.Command{Execute: "query-named-block-nodes", Arguments: map[string]bool{"flat": true}}
	reply, err := session.Run(ctx, all)
	if err == nil {
		err = json.Unmarshal(reply, &nodes)
	}
	for _, n := range nodes {
		if serial, attached := reconcile.SerialOf(n.Name); attached {
			who.plugged = append(who.plugged, serial)
		}
	}
	var devices []struct{ Name string }
	if err == nil {
		all = qmp.Command{Execute: "qom-list", Arguments: map[string]string{"path": "/machine/peripheral"}}
		reply, err = session.Run(ctx, all)
	}
	if err == nil {
		err = json.Unmarshal(reply, &devices)
	}
	for _, d := range devices {
		if mac, _, plugged := reconcile.CardOf(d.Name); plugged {
			who.cards = append(who.cards, mac)
		}
	}
	return who, err
}

// findUnrecorded returns the machine that is running without a record and a link to it; nil if its guest has never
// run. The missing files mean that the guest never ran, unless QEMU reports otherwise.
func (f *finding) findUnrecorded(ctx context.Context) (*Remains, error) {
	if f.findQEMU() == (childprocess.ID{}) {
		return nil, nil
	}
	if who, err := f.queryIdentity(ctx, startTime); err != nil || !who.hasBegun() {
		return nil, nil
	}
	f.err = fmt.Errorf("it has no record in %s", f.dir)
	return f.rebuildRecord(ctx)
}

// rebuildRecord recreates the record of a running machine, and returns the machine; nil if its guest has never run. A
// record is right if its plan matches QEMU's command line.
func (f *finding) rebuildRecord(ctx context.Context) (*Remains, error) {
	qemu := f.findQEMU()
	if qemu == (childprocess.ID{}) {
		return nil, fmt.Errorf("the VM is running, but cannot be adopted: %w; SIGTERM ends its processes: %s", f.err,
			f.describePids())
	}
	who, err := f.queryIdentity(ctx, askTime)
	if err != nil {
		return nil, fmt.Errorf("the VM is running (process %d), but cannot be adopted: %w, and QEMU does not identify "+
			"itself: %w; shut the guest down from inside, or end it (kill %[1]d), and start the VM again", qemu.PID, f.err, err)
	}
	if !who.hasBegun() && !record.LinkedSince(f.vm.DataDir, qemu.Began()) {
		return nil, nil
	}
	r, err := f.rebuiltMachine(ctx, qemu, who)
	if err != nil {
		return nil, fmt.Errorf("the VM is running (process %d, name %s, uuid %s, status %s), but cannot be adopted: %w, "+
			"and cannot be created again: %w; shut the guest down from inside, or end it (kill %[1]d), and start the VM again",
			qemu.PID, who.name, who.uuid, who.status, f.err, err)
	}
	f.log.Warn("the record of the machine is wrong, and was created again", "because", f.err, "pid", qemu.PID,
		"name", who.name, "uuid", who.uuid, "status", who.status)
	if err := r.Write(f.dir); err != nil {
		f.log.Warn("the record of the machine is not written", "err", err)
	}
	adopted, err := childprocess.Adopt(qemu, "qemu", f.log)
	return &Remains{record: r, dir: f.dir, qemu: adopted}, err
}

// describePids lists the processes that hold the lock of the machine.
func (f *finding) describePids() string {
	var pids []string
	for _, id := range f.holders {
		pids = append(pids, strconv.Itoa(id.PID))
	}
	return cmp.Or(strings.Join(pids, ", "), "none that can be seen from here")
}

// rebuiltMachine returns a record that matches QEMU's command line.
func (f *finding) rebuiltMachine(ctx context.Context, qemu childprocess.ID, who identity) (record.Machine, error) {
	words, err := qemu.Arguments()
	if err != nil {
		return record.Machine{}, err
	}
	drafts, err := f.draftRecords(who)
	if err != nil {
		return record.Machine{}, err
	}
	err = nil
	for _, r := range drafts {
		vm, fault := r.VM(ctx, f.dir)
		if fault != nil {
			err = cmp.Or(err, fault)
			continue
		}
		if !isProcessOf(words, vm.Plan.QEMU) {
			err = errOtherConfiguration
			continue
		}
		r.QEMU, r.Helpers = qemu, f.findHelpers(vm.Plan.Helpers)
		if r.Began.IsZero() {
			r.Began = qemu.Began()
		}
		return r, nil
	}
	return record.Machine{}, err
}

var errOtherConfiguration = errors.New(
	"its configuration is not the one that it was started with; restore that, and run it again")

// draftRecords returns possible contents of the record, the most likely first.
func (f *finding) draftRecords(who identity) (drafts []record.Machine, err error) {
	machines, err := prepare.ReadMachines(f.vm.DataDir)
	if err != nil {
		return nil, err
	}
	inForce, err := readfile.ReadFile(filepath.Join(f.dir, prepare.ConfigFile), prepare.LargestRecord)
	if err != nil {
		inForce = nil
	}
	var vmType []byte
	kept := filepath.Join(f.vm.DataDir, prepare.TypeFile)
	if _, err := os.Stat(filepath.Join(f.dir, prepare.TypeFile)); err != nil {
		if vmType, err = readfile.ReadFile(kept, prepare.LargestRecord); err != nil {
			return nil, fmt.Errorf("the type of the running VM is also gone: %w", err)
		}
	}
	_, err = os.Stat(kept)
	configured := record.Of(f.vm, time.Time{})
	configured.UUID, configured.VMType, configured.Unpinned = who.uuid, string(vmType), err != nil
	configured.Plugged, configured.Cards = who.plugged, who.cards
	if who.uuid == noUUID {
		if configured.UUID, err = config.EnsureUUID(f.vm.DataDir, f.vm.Config.VM.UUID, false); err != nil {
			return nil, err
		}
	}
	if f.found.Config != "" {
		f.found.Version = configured.Version
		drafts = append(drafts, f.found)
	}
	for _, text := range []string{string(inForce), string(f.vm.Config.Text())} {
		// The pinned machine versions are used from the second start on.
		for _, pinned := range []map[string]string{machines, nil} {
			for _, protected := range []bool{false, true} {
				if text != "" {
					configured.Config, configured.Machines, configured.Protected = text, pinned, protected
					drafts = append(drafts, configured)
				}
			}
		}
	}
	return drafts, nil
}

// findHelpers finds the helpers of a plan among the processes that hold the lock; a helper that has ended is zero.
func (f *finding) findHelpers(list []plan.Process) (found []childprocess.ID) {
	for _, h := range list {
		at := slices.IndexFunc(f.holders, func(id childprocess.ID) bool {
			words, err := id.Arguments()
			return err == nil && isProcessOf(words, h) && !slices.Contains(found, id)
		})
		if at < 0 {
			found = append(found, childprocess.ID{})
			continue
		}
		found = append(found, f.holders[at])
	}
	return found
}

// isProcessOf reports whether a command line belongs to a process of a plan. A wrapper script may have added arguments.
func isProcessOf(words []string, p plan.Process) bool {
	argv := p.Argv()
	if len(argv) == 0 {
		return filepath.Base(words[0]) == filepath.Base(p.Executable)
	}
	for i := range words {
		if len(words)-i >= len(argv) && slices.Equal(words[i:i+len(argv)], argv) {
			return true
		}
	}
	return false
}
