package sample

import (
	_ "embed" // for the VMs
	"strings"

	"golang.org/x/tools/txtar"
)

// usual are the VMs of Usual: each a vm section.
//
//go:embed usual.txtar
var usual []byte

// Usual returns VMs as people have them, for a VM type that comes without
// samples of its own.
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
