// Package stream connects the manager to the runners of VMs. It uses TLS 1.3 with mutual authentication.
//
//	keys := stream.NewKeys(secrets, configMaps, log)
//	go keys.Run(ctx)                              // creates, publishes and renews
//	target, err := stream.TargetOf(vm, pod.UID, pod.Status.PodIP)
//	client := keys.Client(target, "alice")        // a client of vmop/runner/control
//	status, err := client.Status(ctx)
//	screen, err := client.Screen(ctx, control.Watch)
//
// The manager has authorities, which only sign certificates for its own processes (authorities.go). Their keys are in
// one Secret, which the first manager creates and all replicas share. Their certificates are in one ConfigMap, which is
// mounted into every pod; the runner reads it for each connection. A process keeps the key of its certificate in
// memory, and renews both twice a day.
//
// The manager accepts a runner only with the key that has the hash in the VM's status (vmop/runner/control/remote), at
// the pod's address from the API server. So it can't mistake a pod that later got the same address, or a runner of
// another VM, for the VM's runner.
package stream
