// Package controller assigns the VMs of pools to users, and creates, starts, stops and deletes these VMs. It carries
// out the decisions of package pool.
//
//	pools := poolctl.New(poolctl.Options{Pools: store.Pools(), …})
//	vm, mine, err := pools.Claim(ctx, "alice", "desktops")   // in every manager, leader or not
//	err = pools.Release(ctx, "alice", vm)
//	err = pools.Start(ctx)                                   // in the leader: everything without a user's request
//
// The user of a VM is one field in the VM's status. A write includes the VM's version at the time of the decision. If
// two managers assign the same VM, the API server refuses the second write, and that manager decides again. No other
// lock is needed. Two managers may give a user two VMs at the same moment; the leader then takes one back. Only the
// leader creates, starts, stops and deletes VMs.
//
// See docs/decisions/0146-pools.md.
package controller
