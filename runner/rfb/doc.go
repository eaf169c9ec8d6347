// Package rfb knows as much of RFB, the protocol of VNC (RFC 6143), as it takes to show
// one screen to several people of whom only one may use it.
//
// A Filter is given what a viewer sends, in pieces as they come, and returns what of it
// may be passed on to QEMU's VNC server: the handshake, and questions for pictures and
// sound. Keys, the pointer, the clipboard, another size of the screen and power actions are
// left out, unless the viewer may use the screen. A message of a watcher of an unknown type is an
// error, because where it ends is unknown, too. What the server sends needs no filter.
package rfb
