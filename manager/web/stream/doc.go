// Package stream is the manager's way to the runners of VMs: connections by TLS 1.3 on
// which each side knows the other.
//
//	keys := stream.NewKeys(secrets, configMaps, log)
//	go keys.Run(ctx)                              // makes, publishes and renews
//	target, err := stream.TargetOf(vm, pod.UID, pod.Status.PodIP)
//	client := keys.Client(target, "alice")        // a client of vmop/runner/control
//	status, err := client.Status(ctx)
//	screen, err := client.Screen(ctx, control.Watch)
//
// The manager has authorities, which sign certificates for its own processes and nothing
// else (authorities.go). Their keys are in one Secret, which the first manager creates and all replicas
// share; their certificates are in one ConfigMap, which is mounted into every pod, where the
// runner reads it for each connection. A process keeps the key of its certificate in memory, and
// makes a new one twice a day.
//
// Of the runner the manager accepts the one key whose hash is in the status of the VM
// (vmop/runner/control/remote), at the address that the pod has by the API server. So neither another
// pod that has got the address since, nor a runner that claims to be another VM's, is
// taken for it.
package stream
