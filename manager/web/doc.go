// Package web serves pages on which people see and use VMs: a list that changes while one
// looks at it, a page for each VM, its screen and its serial console in windows of their
// own, and the same as JSON for programs.
//
//	server, err := web.New(web.Options{Fleet: vms, Visitors: visitors, Log: log})
//	http.Serve(listener, server)
//
// Pages are made on the server (html/template) from one typed view model each (view*.go):
// one place for languages, permissions and escaping. A page stays current by a stream of
// server-sent events (live.go) that carries the parts of the page that have changed, made by
// the templates that made the page. The scripts (folder ts) put the parts in place, and
// add what needs a browser: the screen by noVNC, the console by xterm.js. All forms and links
// work without scripts. folder static has what browsers load, the bundled scripts included.
//
// A request passes, in this order: headers for safety and the refusal of requests from
// other sites (server.go), the visitor's log-in, and then for each VM what the visitor
// may do, which pages show, and actions and streams refuse, by the same function.
//
// Every text is in the catalogues in folder texts; a test compares their keys. Names,
// messages and whatever else comes from guests, users or Kubernetes is not trusted: it
// reaches a page through html/template only.
//
// Programs have the same as JSON (api.go), below /api/v1/: by the same fleet, visitors and decisions, with errors as
// problem details.
//
// See docs/decisions/0066-pages.md, 0070-definitions.md and 0075-api.md.
package web
