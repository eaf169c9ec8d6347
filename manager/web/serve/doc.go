// Package serve serves the pages of a manager in a cluster (package manager/web) to those who
// have logged in (package manager/access/login), on a port of its own, by TLS or behind a proxy
// that has it.
//
//	pages, err := serve.New(serve.Options{Fleet: vms, Secrets: secrets, Log: log}, config)
//	go pages.Run(ctx)
//	pages.Configure(changed)
//
// Nothing listens before a user can log in: a manager without users and providers says in its log
// how to change that. Then every manager of a namespace serves, whichever leads; they share
// the key of the sessions (package manager/access/login).
//
// Another port, or another certificate, takes effect without a restart. A server that ends tells
// the open pages, whose browsers connect to another manager.
//
// See docs/decisions/0067-serving.md.
package serve
