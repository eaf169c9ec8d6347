package check

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"vmop/qmp"
	"vmop/runner/machine/usernet"
	"vmop/vmtypes/plan"
)

// An inspection examines a machine that QEMU has created but not started.
type inspection struct {
	ctx     context.Context
	session *qmp.Session
	plan    *plan.Plan
	args    []plan.Option
}

// queryQMP runs a QMP command and decodes its result.
func (m *inspection) queryQMP(command string, arguments, result any) error {
	reply, err := m.session.Run(m.ctx, qmp.Command{Execute: command, Arguments: arguments})
	if err == nil && result != nil {
		err = json.Unmarshal(reply, result)
	}
	return err
}

// examineMachine examines the machine. An error means that there is no machine.
func (m *inspection) examineMachine(r *Result) error {
	var status struct{ Status string }
	if err := m.queryQMP("query-status", nil, &status); err != nil {
		return err
	}
	v := m.session.Version().QEMU
	r.Version = fmt.Sprintf("%d.%d.%d", v.Major, v.Minor, v.Micro)
	if status.Status != "prelaunch" && status.Status != "inmigrate" {
		r.Failures = append(r.Failures,
			Failure{Message: fmt.Sprintf("the machine is %s, but must be prelaunch", status.Status)})
	}
	var kind string
	if err := m.queryQMP("qom-get", map[string]string{"path": "/machine", "property": "type"}, &kind); err != nil {
		return err
	}
	r.Machine = strings.TrimSuffix(kind, "-machine")
	for i, rule := range m.plan.Rules {
		err := m.checkRule(rule)
		if errors.Is(err, qmp.ErrClosed) {
			return err
		}
		if err != nil {
			r.Failures = append(r.Failures,
				Failure{Message: fmt.Sprintf("rule %s: %v", rule, err), Origin: m.plan.RuleOrigin(i)})
		}
	}
	return nil
}

// quitQEMU ends QEMU.
func (m *inspection) quitQEMU() error {
	err := m.queryQMP("quit", nil, nil)
	if errors.Is(err, qmp.ErrClosed) {
		return nil
	}
	return err
}

// checkRule checks that the machine supports what a rule allows.
func (m *inspection) checkRule(rule plan.Rule) error {
	switch r := rule.(type) {
	case plan.CPUs:
		return m.checkCPUs(r)
	case plan.Balloon:
		return m.isA(r.Device, "virtio-balloon")
	case plan.Memory:
		return m.checkMemory(r)
	case plan.Medium:
		return m.checkDrive(r.Device, true)
	case plan.Disk:
		return m.checkDrive(r.Device, false)
	case plan.Limits:
		return m.checkDrive(r.Device, false)
	case plan.Link:
		return m.queryQMP("set_link", map[string]any{"name": r.Device, "up": true}, nil)
	case plan.Ports:
		return m.userNetwork(r.Netdev)
	case plan.Password:
		arguments := map[string]string{"protocol": r.Protocol, "password": "check"}
		if r.Display != "" {
			arguments["display"] = r.Display
		}
		return m.queryQMP("set_password", arguments, nil)
	}
	return nil
}

// checkCPUs checks that there are slots for all CPUs, and the planned number of CPUs at the start.
func (m *inspection) checkCPUs(r plan.CPUs) error {
	var places []struct {
		QOMPath string `json:"qom-path"`
	}
	if err := m.queryQMP("query-hotpluggable-cpus", nil, &places); err != nil {
		return err
	}
	present := 0
	for _, p := range places {
		if p.QOMPath != "" {
			present++
		}
	}
	if len(places) < r.Maximum {
		return fmt.Errorf("places for CPUs: %d, but the rule has %d; set maxcpus of -smp", len(places), r.Maximum)
	}
	if present != r.Boot {
		return fmt.Errorf("CPUs at the start: %d, but the rule has %d; set cpus of -smp", present, r.Boot)
	}
	return nil
}

// isA checks that a device has the given driver.
func (m *inspection) isA(device, driver string) error {
	var kind string
	if err := m.queryQMP("qom-get", map[string]string{"path": "/machine/peripheral/" + device, "property": "type"},
		&kind); err != nil {
		return err
	}
	if !strings.HasPrefix(kind, driver) {
		return fmt.Errorf("%s must be a %s, not a %s", device, driver, kind)
	}
	return nil
}

// checkMemory checks that the device is a virtio-mem device with the sizes in the rule.
func (m *inspection) checkMemory(r plan.Memory) error {
	if err := m.isA(r.Device, "virtio-mem"); err != nil {
		return err
	}
	var devices []struct {
		Data struct {
			ID        string
			BlockSize int64 `json:"block-size"`
			MaxSize   int64 `json:"max-size"`
		}
	}
	if err := m.queryQMP("query-memory-devices", nil, &devices); err != nil {
		return err
	}
	for _, d := range devices {
		switch {
		case d.Data.ID != r.Device:
		case d.Data.BlockSize != r.Block:
			return fmt.Errorf("%s has blocks of %d bytes, but the rule has %d", r.Device, d.Data.BlockSize, r.Block)
		case d.Data.MaxSize < r.Maximum-r.Base:
			return fmt.Errorf("%s can give %d bytes, but the rule needs %d", r.Device, d.Data.MaxSize, r.Maximum-r.Base)
		}
	}
	return nil
}

// checkDrive checks that a device is a drive with a removable medium, or a disk.
func (m *inspection) checkDrive(device string, removable bool) error {
	var blocks []struct {
		QDev      string
		Removable bool
	}
	if err := m.queryQMP("query-block", nil, &blocks); err != nil {
		return err
	}
	for _, b := range blocks {
		if b.QDev != device && !strings.HasPrefix(b.QDev+"/", "/machine/peripheral/"+device+"/") {
			continue
		}
		if removable && !b.Removable {
			return fmt.Errorf("the medium of the drive %s can't be changed", device)
		}
		return nil
	}
	return fmt.Errorf("%s is not a drive", device)
}

// userNetwork checks that a user network with this id exists.
func (m *inspection) userNetwork(netdev string) error {
	var said string
	if err := m.queryQMP(usernet.List().Execute, usernet.List().Arguments, &said); err != nil {
		return err
	}
	if _, is := usernet.Parse(said)[netdev]; !is {
		return fmt.Errorf("%s is not a user network of QEMU, or no device uses it", netdev)
	}
	return nil
}
