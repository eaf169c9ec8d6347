// Package sample reads the VMs that VM types are tried with.
//
// A sample is an archive NAME.txtar: a comment that says what is special about
// this machine, its vm section (vm.yaml), the host (host.json, if it is not the
// usual one), the name of the VM type (type, if it is not the standard one) and
// the plan as text (plan.txt). A sample whose plan is kept is a golden: a change
// of a type shows as a change of goldens.
package sample
