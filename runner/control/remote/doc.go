// Package remote gives only the manager access to a runner in a pod: TLS 1.3 on a separate TCP port, with
// certificates on both sides.
//
//	l, err := remote.Listen(ctx, remote.Options{Authorities: "/etc/…/manager-ca.crt", Port: 7443, Log: log})
//	server.ServeRemote(l)  // of runner/control
//	publish(l.Port(), l.Key())
//
// The manager presents a certificate that one of its authorities has signed for ManagerURI. The authorities'
// certificates are in a file, a mounted ConfigMap. The file is read for each connection, so a change needs no
// restart.
//
// The runner creates its key at its start, keeps it in memory, and publishes the key's hash in the status of its
// VM, which other runners can't write. The manager accepts only that key. As a result, a runner has no secret to
// store, mount or renew, and no certificate that expires (docs/decisions/0065-runner-keys.md).
//
// Strangers who connect and stay silent don't block the manager: see package mtls.
package remote
