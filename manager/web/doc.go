// Package web serves the web interface: a list of VMs that updates itself, a page for each VM, windows with its screen
// and serial console, and a JSON interface for programs.
//
//	server, err := web.New(web.Options{Fleet: vms, Visitors: visitors, Log: log})
//	http.Serve(listener, server)
//
// The server renders each page (html/template) from one typed view model, where languages, permissions and escaping are
// handled. An open page is kept current by a stream of server-sent events (live.go). The stream contains the changed
// parts of the page, rendered by the same templates. The scripts (folder ts) insert these parts, and add what needs a
// browser: the screen with noVNC, the console with xterm.js. All forms and links work without scripts. Folder static
// contains the files for browsers, including the bundled scripts.
//
// Each request passes these steps: security headers and the refusal of cross-site requests (server.go), the login, and
// the access decision for each VM. Pages use the same function to show what a visitor may do as actions and streams use
// to refuse requests.
//
// All texts are in the catalogs in folder texts; a test compares their keys. Names, messages and other data from
// guests, users or Kubernetes are untrusted: they reach a page only through html/template.
//
// The JSON interface (api.go) is below /api/v1/. It uses the same fleet, visitors and access decisions, and returns
// errors as problem details.
//
// See docs/decisions/0066-pages.md, 0070-definitions.md and 0075-api.md.
package web
