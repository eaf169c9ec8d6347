// Package k8s tells a Kubernetes API server how the VM of this pod is: in the
// status of its VirtualMachine, and by events.
//
//	pod, err := k8s.FindPod(os.Getenv, k8s.DefaultServiceAccount) // nil outside of a cluster
//	reporter := k8s.NewReporter(pod, log)
//	reporter.Follow(tracker, "")
//	...
//	reporter.Close(ctx) // when the final status is written, or it takes too long
//
// The runner reads nothing. It says what it knows by server-side apply
// (https://kubernetes.io/docs/reference/using-api/server-side-apply/) to
// vms/NAME/status, as the field manager vm-runner: a whole each time, so that what
// was missed in an outage is caught up by the next one, and no other writer is in
// the way of anybody's. A report is a pure function of a status (report.go).
//
// The newest status wins; those between are gone. Nothing waits for the API server,
// neither the VM nor the tracker.
//
// Nothing of client-go is linked: what initialises it would be paid by every runner,
// also those outside of a cluster (docs/decisions/0034-server-side-apply.md).
package k8s
