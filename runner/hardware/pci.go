package hardware

import (
	"encoding/json"
	"fmt"

	"vmop/internal/printable"
	"vmop/qmp"
)

// A Function is a PCI device of the machine.
type Function struct {
	Address string // 0000:00:0f.0
	ID      string // of the device in QEMU; "" without an id
	Class   string // QEMU's description of the class
}

// PCIQuestion is the command for ParsePCI.
func PCIQuestion() qmp.Command { return qmp.Command{Execute: "query-pci"} }

// pciDevice is PciDeviceInfo of QEMU's reference.
type pciDevice struct {
	Bus, Slot, Function int
	ID                  string `json:"qdev_id"`
	Class               struct {
		Text string `json:"desc"`
	} `json:"class_info"`
	Bridge *struct {
		Devices []pciDevice
	} `json:"pci_bridge"`
}

// ParsePCI reads the answer to PCIQuestion. The result has Linux's order of discovery: the devices of a bus, and
// then the devices behind each of its bridges. The firmware has assigned the numbers of the buses.
func ParsePCI(answer json.RawMessage) ([]Function, error) {
	var buses []struct{ Devices []pciDevice }
	if err := json.Unmarshal(answer, &buses); err != nil {
		return nil, fmt.Errorf("query-pci: reply of QEMU: %w", err)
	}
	var list []Function
	for _, bus := range buses {
		list = appendFunctions(list, bus.Devices)
	}
	return list, nil
}

func appendFunctions(list []Function, devices []pciDevice) []Function {
	for _, d := range devices {
		list = append(list, Function{
			Address: fmt.Sprintf("0000:%02x:%02x.%x", d.Bus&0xff, d.Slot&0x1f, d.Function&7),
			ID:      printable.Line(d.ID), Class: printable.Line(d.Class.Text),
		})
	}
	for _, d := range devices {
		if d.Bridge != nil {
			list = appendFunctions(list, d.Bridge.Devices)
		}
	}
	return list
}
