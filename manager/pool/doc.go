// Package pool decides who gets which VM of a pool, and what becomes of the others. It is pure: pools, their
// VMs and the time go in.
//
//	m, err := pool.MemberOf(vm)                      // for each VM of the namespace that is in a pool
//	one, mine := p.Choose(members, "alice", now)     // what alice gets; mine: she has it already
//	plan := p.Plan(members, now)                     // what is to be done without users
//
// The life of a VM in a pool:
//
//	free ── a user gets it ──▶ assigned, in use ── the viewer goes ──▶ retained ── spec.retention ──▶ no longer kept
//	 ▲                              ▲                                     │                             │
//	 │                              └──────── the same user again ────────┴─────────────────────────────┤
//	 └─────────── released: by a user, by spec.afterRetention, or given to the next user ───────────────┘
//
// The user who has a VM is one field of its status (v1.Assignment), which is written with the version of the VM
// on which the decision depends. Package assign writes it.
//
// See docs/decisions/0146-pools.md.
package pool
