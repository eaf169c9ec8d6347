// Package outbound denies requests to internal addresses. A user who chooses a URL, or a server that redirects, must
// not be able to make a program read private data of this computer or this pod.
//
// A [Rule] checks the resolved address of a name at the time of the connection. Therefore redirects, and names that
// resolve differently the second time, can't bypass it. All clients that connect to addresses chosen by others use
// it: imports, disk images, registries and OpenID Connect providers.
//
// See docs/decisions/0180-internal-addresses.md.
package outbound
