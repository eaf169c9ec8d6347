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

	"vmop/printable"
	"vmop/process"
	"vmop/qmp"
	"vmop/regular"
	"vmop/runner/config"
	"vmop/runner/holders"
	"vmop/runner/launch"
	"vmop/runner/prepare"
	"vmop/runner/reconcile"
	"vmop/runner/record"
	"vmop/runner/sockets"
	"vmop/vmtypes/plan"
)

// Times that a QEMU without a record has to say who it is.
const (
	askTime   = 30 * time.Second
	startTime = 10 * time.Second // one whose guest has never run, as far as is known
)

// A finding is a machine whose record can't be used.
type finding struct {
	search
	dir     string         // the runtime directory
	holders []process.ID   // of the lock
	found   record.Machine // what could be read of the record
	err     error          // why it can't be used
}

// qemu returns the QEMU that has the lock. It is zero if there is none, or none that can be
// seen from here.
func (f *finding) qemu() process.ID { return holders.FindQEMU(f.holders) }

// reach makes the runtime directory again, with a way to QEMU's monitor, if they were removed.
func (f *finding) reach() error {
	qemu := f.qemu()
	if _, err := os.Stat(f.monitor()); err == nil || qemu == (process.ID{}) {
		return nil
	}
	if err := launch.MakePrivateDir(f.dir); err != nil {
		return err
	}
	return sockets.LinkInherited(qemu, f.monitor())
}

func (f *finding) monitor() string { return filepath.Join(f.dir, prepare.MonitorSocket) }

// identity is who QEMU says it is, and which disks it has got since it was started, by their serial numbers.
type identity struct {
	name, uuid, status string
	plugged            []string
}

// noUUID is what QEMU says whose VM type gives it none.
const noUUID = "00000000-0000-0000-0000-000000000000"

// begun reports whether the guest has run.
func (i identity) begun() bool { return i.status != "prelaunch" }

// query asks QEMU who it is.
func (f *finding) query(ctx context.Context, limit time.Duration) (who identity, err error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	session, err := qmp.Dial(ctx, f.monitor(), qmp.WithTrace(f.log))
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
	return who, err
}

// unrecorded returns the machine that runs without a record and a link to it; nil if its
// guest has never run, as they say and QEMU doesn't deny.
func (f *finding) unrecorded(ctx context.Context) (*Remains, error) {
	if f.qemu() == (process.ID{}) {
		return nil, nil
	}
	if who, err := f.query(ctx, startTime); err != nil || !who.begun() {
		return nil, nil
	}
	f.err = fmt.Errorf("it has no record in %s", f.dir)
	return f.rebuild(ctx)
}

// rebuild makes the record of a running machine again, and returns the machine; nil if its
// guest has never run. A record is right if its plan is what QEMU was started with.
func (f *finding) rebuild(ctx context.Context) (*Remains, error) {
	qemu := f.qemu()
	if qemu == (process.ID{}) {
		return nil, fmt.Errorf("the VM is running, but cannot be adopted: %w; SIGTERM ends its processes: %s", f.err,
			f.pids())
	}
	who, err := f.query(ctx, askTime)
	if err != nil {
		return nil, fmt.Errorf("the VM is running (process %d), but cannot be adopted: %w, and QEMU does not say who it "+
			"is: %w; shut the guest down from inside, or end it (kill %[1]d), and start the VM again", qemu.PID, f.err, err)
	}
	if !who.begun() && !record.LinkedSince(f.vm.DataDir, qemu.Began()) {
		return nil, nil
	}
	r, err := f.rebuilt(ctx, qemu, who)
	if err != nil {
		return nil, fmt.Errorf("the VM is running (process %d, name %s, uuid %s, status %s), but cannot be adopted: %w, "+
			"and cannot be made again: %w; shut the guest down from inside, or end it (kill %[1]d), and start the VM again",
			qemu.PID, who.name, who.uuid, who.status, f.err, err)
	}
	f.log.Warn("the record of the machine is wrong, and was made again", "because", f.err, "pid", qemu.PID,
		"name", who.name, "uuid", who.uuid, "status", who.status)
	if err := r.Write(f.dir); err != nil {
		f.log.Warn("the record of the machine is not written", "err", err)
	}
	adopted, err := process.Adopt(qemu, "qemu", f.log)
	return &Remains{record: r, dir: f.dir, qemu: adopted}, err
}

// pids names the processes that have the lock of the machine.
func (f *finding) pids() string {
	var pids []string
	for _, id := range f.holders {
		pids = append(pids, strconv.Itoa(id.PID))
	}
	return cmp.Or(strings.Join(pids, ", "), "none that can be seen from here")
}

// rebuilt returns the record of what QEMU was started with.
func (f *finding) rebuilt(ctx context.Context, qemu process.ID, who identity) (record.Machine, error) {
	words, err := qemu.Arguments()
	if err != nil {
		return record.Machine{}, err
	}
	drafts, err := f.drafts(who)
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
		if !runs(words, vm.Plan.QEMU) {
			err = errOtherConfiguration
			continue
		}
		r.QEMU, r.Helpers = qemu, f.helpers(vm.Plan.Helpers)
		if r.Began.IsZero() {
			r.Began = qemu.Began()
		}
		return r, nil
	}
	return record.Machine{}, err
}

var errOtherConfiguration = errors.New(
	"its configuration is not the one that it was started with; restore that, and run it again")

// drafts are what the record may have been, the likeliest first.
func (f *finding) drafts(who identity) (drafts []record.Machine, err error) {
	machines, err := prepare.ReadMachines(f.vm.DataDir)
	if err != nil {
		return nil, err
	}
	inForce, err := regular.ReadFile(filepath.Join(f.dir, prepare.ConfigFile), prepare.LargestRecord)
	if err != nil {
		inForce = nil
	}
	var vmType []byte
	kept := filepath.Join(f.vm.DataDir, prepare.TypeFile)
	if _, err := os.Stat(filepath.Join(f.dir, prepare.TypeFile)); err != nil {
		if vmType, err = regular.ReadFile(kept, prepare.LargestRecord); err != nil {
			return nil, fmt.Errorf("the type of the VM that runs is gone, too: %w", err)
		}
	}
	_, err = os.Stat(kept)
	configured := record.Of(f.vm, time.Time{})
	configured.UUID, configured.VMType, configured.Unpinned = who.uuid, string(vmType), err != nil
	configured.Plugged = who.plugged
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
		// What is pinned now is of use from the second start on.
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

// helpers finds the helpers of a plan among the processes that have the lock; one that has
// ended is zero.
func (f *finding) helpers(list []plan.Process) (found []process.ID) {
	for _, h := range list {
		at := slices.IndexFunc(f.holders, func(id process.ID) bool {
			words, err := id.Arguments()
			return err == nil && runs(words, h) && !slices.Contains(found, id)
		})
		if at < 0 {
			found = append(found, process.ID{})
			continue
		}
		found = append(found, f.holders[at])
	}
	return found
}

// runs reports whether a command line is that of a process of a plan, to which a script in
// the program's place may have added.
func runs(words []string, p plan.Process) bool {
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
