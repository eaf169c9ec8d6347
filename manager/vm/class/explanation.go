package class

import "vmop/vmstatus"

// Explanations explain the reasons of the conditions of VM classes, in the order of the documentation.
var Explanations = []vmstatus.Explanation{
	{Reasons: []vmstatus.Reason{ReasonReady}, Meaning: "At least one node can run VMs of the class"},
	{
		Reasons: []vmstatus.Reason{ReasonNoNodes},
		Meaning: "No node has the labels and CPU features, or tolerates the taints",
		Advice:  "Change the class's `nodeSelector`, `tolerations` or `cpu`, or label a node.",
	},
	{
		Reasons: []vmstatus.Reason{ReasonNodesUnknown},
		Meaning: "The manager may not read nodes",
		Advice:  "Apply deploy/manager/cluster-account.yaml.",
	},
	{
		Reasons: []vmstatus.Reason{ReasonNoFeatureLabels},
		Meaning: "Nodes have no labels with their CPU features",
		Advice:  "Install node-feature-discovery.",
	},
	{
		Reasons: []vmstatus.Reason{ReasonSelector},
		Meaning: "A selector of the class contains an error",
		Advice:  "Correct the field in the message.",
	},
	{
		Reasons: []vmstatus.Reason{ReasonDefaults},
		Meaning: "The VM type refuses the defaults of the class",
		Advice:  "Correct the field in the message.",
	},
	{Reasons: []vmstatus.Reason{reasonIsDefault}, Meaning: "New VMs without a class use this class"},
	{
		Reasons: []vmstatus.Reason{reasonManyDefaults},
		Meaning: "Several classes are the default. The newest is used",
		Advice:  "Remove the annotation from the others.",
	},
}
