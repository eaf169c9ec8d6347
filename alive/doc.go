// Package alive ends TCP connections whose other end has vanished: a computer that was
// switched off, lost its network or went to sleep sends no end of its connections, and a
// screen or console that it showed would keep its place for hours.
//
// A [Limit] makes listeners and dialers. The kernel watches their connections by two means:
// it asks an idle end for a sign of life (keep-alive), and gives up when what was sent is not
// acknowledged (TCP_USER_TIMEOUT, tcp(7)); without the second, the first is not done as long as
// there is something to send again. A read or write then fails with ETIMEDOUT. An end that
// lives stays connected, however long it is idle: its kernel answers, not its program.
//
// See docs/decisions/0103-vanished-viewers.md.
package alive
