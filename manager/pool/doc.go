// Package pool decides which user gets which VM of a pool, and which VMs to create, start, stop and delete. It is pure:
// its input is pools, their VMs and the time. Package manager/pool/controller carries out the decisions.
//
//	m := pool.MemberOf(vm)                           // for each VM of the namespace that is in a pool
//	one, mine := p.Choose(members, "alice", now)     // the VM for alice; mine: she already has it
//	plan := p.Plan(members, now)                     // what to do without a user's request
//
// The states of a VM in a pool:
//
//	free ── a user gets it ──▶ assigned, in use ── viewer leaves ──▶ retained ── spec.retention ends ──▶ expired
//	 ▲                              ▲                                   │                                   │
//	 │                              └──────── same user returns ────────┴───────────────────────────────────┤
//	 └──────── released: by a user, by spec.afterRetention, or because the next user gets it ───────────────┘
//
// The user of a VM is one field in the VM's status (v1.Assignment). A write of it includes the VM's version at the time
// of the decision.
//
// See docs/decisions/0146-pools.md.
package pool
