package addresses

import "vmop/vmstatus"

// Explanations explain why an address is not leased, in the order of the documentation.
var Explanations = []vmstatus.Explanation{
	{
		Reasons: []vmstatus.Reason{reasonTaken},
		Meaning: "Another vmip, in this or another namespace, leases the address",
		Advice:  "Choose another address, or delete the other vmip.",
	},
	{
		Reasons: []vmstatus.Reason{reasonNotUsable},
		Meaning: "The address is outside all ranges, excluded, a gateway, or a network or broadcast address",
		Advice:  "Choose an address in a range.",
	},
	{
		Reasons: []vmstatus.Reason{ReasonNoneFree},
		Meaning: "All addresses are leased",
		Advice:  "Delete unused vmips, or let an administrator add a range.",
	},
	{
		Reasons: []vmstatus.Reason{ReasonOutOfRange},
		Meaning: "The address is leased, but no range contains it any more",
		Advice:  "Let an administrator add the range again, or delete the vmip.",
	},
}

// UseExplanations explain why a VM waits for an address.
var UseExplanations = []vmstatus.Explanation{
	{
		Reasons: []vmstatus.Reason{reasonMissing},
		Meaning: "The vmip in the VM's definition doesn't exist",
		Advice:  "Create it, or correct the name.",
	},
	{
		Reasons: []vmstatus.Reason{reasonPending},
		Meaning: "The vmip has no address",
		Advice:  "Look up the vmip's reason: `kubectl get vmip -o wide`.",
	},
	{
		Reasons: []vmstatus.Reason{reasonInUse},
		Meaning: "Another VM uses the vmip",
		Advice:  "Stop the other VM, or choose another vmip.",
	},
	{
		Reasons: []vmstatus.Reason{ReasonNotReady},
		Meaning: "The cluster lacks the definitions of addresses, or the manager may not read them",
		Advice:  "Let an administrator install them.",
	},
}
