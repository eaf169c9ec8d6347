// Package v1 defines the custom resources of the group vmoperator.jdrupes.org as Go
// types, with the rules that the API server enforces.
//
// Fields have the names and meanings of VM-Operator's resources, so existing definitions
// apply unchanged. The descriptions of additional fields mention it. The definitions in
// deploy/crds are generated from this package (make generate): rules that a schema can
// express are markers, and all other rules are CEL expressions with messages.
//
// A quantity (type resource.Quantity) is written as usual in Kubernetes, such as "4Gi" or
// "512M".
//
// +kubebuilder:object:generate=true
// +groupName=vmoperator.jdrupes.org
package v1

//go:generate go tool -modfile=../../tools/go.mod controller-gen object paths=.
//go:generate go tool -modfile=../../tools/go.mod controller-gen crd:maxDescLen=400 paths=. output:crd:dir=../../deploy/crds
//go:generate sed -i -f crd.sed ../../deploy/crds/vmoperator.jdrupes.org_vms.yaml ../../deploy/crds/vmoperator.jdrupes.org_virtualmachineclasses.yaml ../../deploy/crds/vmoperator.jdrupes.org_virtualdisks.yaml ../../deploy/crds/vmoperator.jdrupes.org_virtualimages.yaml ../../deploy/crds/vmoperator.jdrupes.org_clustervirtualimages.yaml ../../deploy/crds/vmoperator.jdrupes.org_vmpools.yaml
