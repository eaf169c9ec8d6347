// Package k8s reports the VM of this pod to a Kubernetes API server: in the status of its VirtualMachine, and
// with events.
//
//	pod, err := k8s.FindPod(os.Getenv, k8s.DefaultServiceAccount) // nil outside of a cluster
//	reporter := k8s.NewReporter(pod, log)
//	reporter.Follow(ctx, tracker, "")
//	...
//	reporter.Close(ctx) // when the final status is written, or it takes too long
//
// The runner writes the status with server-side apply
// (https://kubernetes.io/docs/reference/using-api/server-side-apply/) to vms/NAME/status, as the field manager
// vm-runner. Each report is complete, so the first report after an outage contains everything that was missed,
// and reports don't conflict with other writers. A report is a pure function of a status (report.go).
//
// The newest status wins; older unsent statuses are dropped. The VM and the tracker never wait for the API
// server.
//
// The package doesn't link client-go, because every runner would pay for its initialization, even outside of a
// cluster (docs/decisions/0034-server-side-apply.md).
package k8s
