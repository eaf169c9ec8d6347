// Package controller gives the VMs of pools to users, and makes and takes away VMs, as package pool decides.
//
//	pools := assign.New(assign.Options{Pools: store.Pools(), …})
//	vm, mine, err := pools.Claim(ctx, "alice", "desktops")   // by every manager, whether it leads or not
//	err = pools.Release(ctx, "alice", vm)
//	err = pools.Start(ctx)                                   // by the one that leads: what is done without users
//
// The user who has a VM is one field of its status, which is written with the version of the VM that was looked
// at: of two managers that give the same VM away, the API server refuses the second, which looks again. Nothing
// else has to be locked. That a user gets two VMs by two managers at the same moment is possible; the one that
// leads takes one of them back. Only that one starts, stops, makes and deletes VMs.
//
// See docs/decisions/0146-pools.md.
package controller
