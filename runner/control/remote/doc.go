// Package remote lets the manager, and nothing else, reach a runner in a pod: TLS 1.3 on a
// TCP port of its own, with certificates on both sides.
//
//	l, err := remote.Listen(ctx, remote.Options{Authorities: "/etc/…/manager-ca.crt", Port: 7443, Log: log})
//	server.ServeRemote(l)  // of runner/control
//	publish(l.Port(), l.Key())
//
// The manager shows a certificate that one of its authorities has signed for ManagerURI. Their
// certificates are in a file, a mounted ConfigMap, which is read for each connection: that they
// change takes no restart.
//
// The runner makes its key at its start, keeps it in memory, and publishes the
// key's hash in the status of its VM, which no other runner may write. The manager
// accepts that key only. So there is no secret of a runner to be stored, mounted or
// renewed, and no certificate of it that expires (docs/decisions/0065-runner-keys.md).
//
// Strangers who connect and say nothing don't keep the manager out: see package mutual.
package remote
