// Package serve serves the pages of a manager in a cluster (package manager/web) to logged-in users (package
// manager/access/login). It listens on its own port, with TLS or behind a proxy that provides TLS.
//
//	pages, err := serve.New(serve.Options{Fleet: vms, Secrets: secrets, Log: log}, config)
//	go pages.Run(ctx)
//	pages.Configure(changed)
//
// It listens only when a user can log in. A manager without users and providers logs how to change that. Then every
// manager of a namespace serves the pages, leading or not; all share the key of the sessions (package
// manager/access/login).
//
// A new port or certificate takes effect without a restart. A server that shuts down notifies the open pages, and their
// browsers connect to another manager.
//
// See docs/decisions/0067-serving.md.
package serve
