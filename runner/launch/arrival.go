package launch

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"vmop/internal/atomicfile"
	"vmop/runner/prepare"
	"vmop/vmtypes/plan"
)

// arrivingTPM returns the folder in the data directory where swtpm works until a guest that brings its TPM state
// has arrived.
//
// See docs/decisions/0136-tpm-of-a-guest-that-moves.md.
func arrivingTPM(dataDir string) string { return filepath.Join(dataDir, plan.TPMFolder+".arriving") }

// expectTPM makes swtpm work in an empty folder.
func (l *Launch) expectTPM() error {
	arriving, own := arrivingTPM(l.vm.DataDir), filepath.Join(l.vm.DataDir, plan.TPMFolder)
	remove := func() error { return os.RemoveAll(arriving) }
	if err := remove(); err != nil { // a killed runner may have left it
		return err
	}
	for i := range l.vm.Plan.Helpers {
		h := &l.vm.Plan.Helpers[i]
		if h.Dir != own {
			continue
		}
		if err := os.Mkdir(arriving, 0o700); err != nil {
			return err
		}
		l.undo.AddMachine("TPM of a guest that has not come", remove)
		h.Dir = arriving
	}
	return nil
}

// AcceptTPM replaces the TPM state in the data directory, if any, with the state that has arrived. swtpm keeps
// running in the renamed folder. The caller must already have recorded that the guest belongs to this side.
func AcceptTPM(dataDir string) error {
	arriving, own := arrivingTPM(dataDir), filepath.Join(dataDir, plan.TPMFolder)
	if isAbsent(arriving) {
		return nil
	}
	// Otherwise the state of an earlier version would count as newer.
	if err := leadTo(filepath.Join(dataDir, prepare.SwtpmState)); err != nil {
		return err
	}
	if err := os.RemoveAll(own); err != nil {
		return err
	}
	return atomicfile.Rename(arriving, own)
}

// AcceptTPM is like the function AcceptTPM, and updates the plan of the started machine.
func (l *Launch) AcceptTPM() error {
	if err := AcceptTPM(l.vm.DataDir); err != nil {
		return err
	}
	for i := range l.vm.Plan.Helpers {
		if h := &l.vm.Plan.Helpers[i]; h.Dir == arrivingTPM(l.vm.DataDir) {
			h.Dir = filepath.Join(l.vm.DataDir, plan.TPMFolder)
		}
	}
	return nil
}

// TPMState returns a file with TPM state in the data directory, or "" if it has no state or the plan has no TPM.
func TPMState(vm *prepare.VM) (string, error) {
	state := tpmState(vm.Plan)
	if state == "" {
		return "", nil
	}
	own := filepath.Join(vm.DataDir, plan.TPMFolder)
	files := []string{state, filepath.Join(vm.DataDir, prepare.SwtpmState)}
	if filepath.Dir(state) == own { // AcceptTPM replaces the folder with all its contents
		entries, err := os.ReadDir(own)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return "", err
		}
		for _, e := range entries {
			files = append(files, filepath.Join(own, e.Name()))
		}
	}
	for _, file := range files {
		info, err := os.Lstat(file)
		switch {
		case err == nil && info.Mode().IsRegular() && info.Size() > 0:
			return file, nil
		case err != nil && !errors.Is(err, fs.ErrNotExist):
			return "", err
		}
	}
	return "", nil
}
