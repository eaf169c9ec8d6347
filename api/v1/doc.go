// Package v1 has the custom resources of the group vmoperator.jdrupes.org, as Go
// types with the rules that the API server enforces.
//
// The names and meanings of fields are those of VM-Operator's resources, so existing
// definitions apply unchanged; fields that this project adds say so. The definitions in
// deploy/crds are generated from this package (make generate): a marker for each rule that
// a schema can express, and a rule in CEL with a message for each other one.
//
// A quantity (type resource.Quantity) is written as everywhere in Kubernetes, "4Gi" or
// "512M".
//
// +kubebuilder:object:generate=true
// +groupName=vmoperator.jdrupes.org
package v1

//go:generate go tool -modfile=../../tools/go.mod controller-gen object paths=.
//go:generate go tool -modfile=../../tools/go.mod controller-gen crd:maxDescLen=400 paths=. output:crd:dir=../../deploy/crds
//go:generate sed -i -f crd.sed ../../deploy/crds/vmoperator.jdrupes.org_vms.yaml ../../deploy/crds/vmoperator.jdrupes.org_virtualmachineclasses.yaml ../../deploy/crds/vmoperator.jdrupes.org_virtualdisks.yaml ../../deploy/crds/vmoperator.jdrupes.org_virtualimages.yaml ../../deploy/crds/vmoperator.jdrupes.org_clustervirtualimages.yaml ../../deploy/crds/vmoperator.jdrupes.org_vmpools.yaml
