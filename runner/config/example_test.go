package config_test

import (
	"errors"
	"fmt"

	"vmop/internal/yamlfile"
	"vmop/runner/config"
)

func ExampleParse() {
	c, _, err := config.Parse("config.yaml", []byte(`
"/Runner":
  vm:
    name: test
    maximumCpus: 4
    maximumRam: 8 GiB
`))
	if err != nil {
		fmt.Println(err)
		return
	}
	vm := c.VM.WithDefaults()
	fmt.Println(vm.Name, vm.CurrentCPUs, vm.CurrentRAM, c.VMType)
	// Output: test 4 8 GiB standard
}

// All errors of a file are reported together.
func ExampleFaults_Excerpts() {
	_, _, err := config.Parse("config.yaml", []byte(`
"/Runner":
  vm:
    name: test
    maximumRm: 8 GiB
    accelerator: kmv
`))
	var faults yamlfile.Faults
	if errors.As(err, &faults) {
		fmt.Print(faults.Excerpts())
	}
	// Output:
	// config.yaml:5:5: vm.maximumRm: unknown key (did you mean maximumRam?)
	//    5 |     maximumRm: 8 GiB
	//      |     ^
	// config.yaml:6:18: vm.accelerator: can't be "kmv" (did you mean kvm? It can be auto, kvm, tcg or none)
	//    6 |     accelerator: kmv
	//      |                  ^
}
