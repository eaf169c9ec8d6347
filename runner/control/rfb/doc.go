// Package rfb implements the part of RFB, the protocol of VNC (RFC 6143), that is needed to show one screen to
// several people while only one of them may use it.
//
// A Filter receives the bytes of a viewer, in any pieces, and returns those that may be passed on to QEMU's VNC
// server: the handshake, and requests for pictures and sound. It drops keys, the pointer, the clipboard, resizing
// of the screen and power actions, unless the viewer may use the screen. If a watcher sends a message of an
// unknown type, the Filter returns an error, because the message's length is unknown. Bytes from the server need
// no filter.
package rfb
