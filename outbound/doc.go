// Package outbound keeps requests away from internal addresses: a user who chooses a URL, or a server that
// redirects, must not make a program read what only this computer or this pod may read.
//
// A [Rule] judges the address that a name has resolved to, when the connection is made. So neither a redirect nor a
// name that resolves differently a second time gets around it. All clients of addresses that others choose use it:
// imports, images of disks, registries and providers of OpenID Connect.
//
// See docs/decisions/0180-internal-addresses.md.
package outbound
