package sample

import (
	_ "embed" // for the VMs
	"strings"

	"golang.org/x/tools/txtar"
)

// usual contains the vm sections for Usual.
//
//go:embed usual.txtar
var usual []byte

// Usual returns typical VMs, for a VM type without samples.
func Usual(vmType string) ([]*Sample, error) {
	var list []*Sample
	for _, file := range txtar.Parse(usual).Files {
		s := &Sample{Path: strings.TrimSuffix(file.Name, ".yaml"), Type: vmType}
		if strings.HasSuffix(s.Path, "-kvm") {
			s.Host.KVM = true
		}
		var err error
		if s.VM, err = ParseVM(file.Data); err != nil {
			return nil, err
		}
		list = append(list, s)
	}
	return list, nil
}
